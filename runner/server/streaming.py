"""Answers that are streams: a client that goes, or takes nothing, ends them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import anyio
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from runner.server.bounds import SEND_S
from runner.server.visits import visit_of

Pour = Callable[[bytes], Awaitable[None]]
"""It sends a piece, and returns once the client has taken most of it."""


class StreamAnswer:
    """An answer whose body a function pours out.

    The client's own network sets its pace: what pours waits for it, and nothing is
    held for it but one piece.
    """

    def __init__(
        self,
        pours: Callable[[Pour], Awaitable[None]],
        status: int,
        headers: Mapping[str, str],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """Take what pours, and what is called at the end, however that comes."""
        self._pours, self._status, self._headers = pours, status, headers
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; raise ClientDisconnect if it was broken off."""
        try:
            await self._sent(scope, receive, send)
        finally:
            self._close()

    async def _sent(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit_of(scope).long = True
        headers = [(n.lower().encode(), v.encode()) for n, v in self._headers.items()]
        start = {"type": "http.response.start", "status": self._status}
        failed: Exception | None = None
        whole = False

        async def pour(data: bytes) -> None:
            with anyio.fail_after(SEND_S):
                await send(
                    {"type": "http.response.body", "body": data, "more_body": True}
                )

        async with anyio.create_task_group() as group:

            async def wait_for_the_client_to_go() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(wait_for_the_client_to_go)
            try:
                await send({**start, "headers": headers})
                if scope["method"] != "HEAD":
                    await self._pours(pour)
                await send({"type": "http.response.body", "body": b""})
                whole = True
            except TimeoutError:
                pass
            except Exception as error:
                failed = error  # as it is, not in a group
            group.cancel_scope.cancel()
        if failed is not None:
            raise failed
        if not whole:
            raise ClientDisconnect
