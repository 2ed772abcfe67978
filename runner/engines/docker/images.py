"""Images on a Docker Engine: prepare one as planned, list and remove them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from runner.core import (
    BuildImage,
    BuildSpec,
    BuiltImage,
    ImageAction,
    ImageFacts,
    ImagePlan,
    ImageUsed,
    Limits,
    Origin,
    Reason,
)
from runner.core.errors import Cancel, EngineError, ImageError
from runner.core.events import BuildStarted, Event, ImageReady, Warned
from runner.engines.cgroup import Group
from runner.engines.docker import builds, classic, context, transfer
from runner.engines.docker.builds import BuildRun
from runner.engines.docker.client import (
    CONFLICT,
    FAILURES,
    APIError,
    Client,
    NotFound,
    explained,
    failing,
    image,
)
from runner.engines.docker.endpoint import Endpoint, EngineProbe
from runner.engines.docker.facts import Info, can_group_builds, is_here
from runner.pack import Project
from runner.spec import dockerfile as fetches
from runner.spec import image_names, images
from runner.spec.image_names import Kept
from runner.system import machine

FOLDER_DIGITS = 16


class Removed(Struct, frozen=True):
    """The images that were not removed, and the bytes freed (None: not known)."""

    kept: tuple[Kept, ...]
    freed_bytes: int | None


def origin(project: Path) -> Origin:
    """Identify a project's folder among others of the same name."""
    path = project.resolve()
    folder = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()
    name = path.name.encode(errors="replace").decode()
    return Origin(name, machine.this_process().host, folder[:FOLDER_DIGITS])


def size_bytes(client: Client, reference: str) -> int:
    """Return an image's size, shared layers included."""
    with failing(f"look at the image {reference}"):
        return int(image(client, reference)["Size"])


def tags(each: dict[str, Any]) -> list[str]:
    """Return the names by tag of one image in the engine's list."""
    return [tag for tag in each["RepoTags"] or () if "<none>" not in tag]


def names(each: dict[str, Any]) -> list[str]:
    """Return the names, by tag and by digest, of one image in the engine's list."""
    digests = (name for name in each["RepoDigests"] or () if "<none>" not in name)
    return [*tags(each), *digests]


def recognised(found: Iterable[dict[str, Any]]) -> tuple[BuiltImage, ...]:
    """Pick those that rai built out of the engine's list of images."""
    read = (
        image_names.read_label(
            each["Id"],
            tags(each) or names(each),
            each["Labels"] or {},
            each["Size"],
            each["Created"],
        )
        for each in found
    )
    return tuple(one for one in read if one is not None)


def built(client: Client) -> tuple[BuiltImage, ...]:
    """List what rai built, with what each shares and how many containers use it."""
    with failing("list its images"):
        found = recognised(client.images())
        used = Counter(c["ImageID"] for c in client.containers(all=True))
    usage = {each["Id"]: each for each in _usage(client).get("Images") or ()}
    return tuple(
        replace(
            one,
            containers=used[one.id],
            shared_bytes=_known(usage.get(one.id, {}).get("SharedSize")),
        )
        for one in found
    )


def remove(client: Client, wanted: Sequence[BuiltImage]) -> Removed:
    """Remove images by their names, and return what that freed.

    The engine keeps what has come into use; an image that is already gone is no error.
    """
    before = _usage(client).get("LayersSize")
    kept = [k for each in wanted if (k := _removed(client, each)) is not None]
    after = _usage(client).get("LayersSize")
    if before is None or after is None:
        return Removed(tuple(kept), None)
    return Removed(tuple(kept), max(0, before - after))


def _removed(client: Client, built: BuiltImage) -> Kept | None:
    try:
        for name in built.tags or (built.id,):
            with contextlib.suppress(NotFound):
                client.remove_image(name)
    except APIError as error:
        if error.status_code != CONFLICT:
            with failing(f"remove the image {built.id}"):
                raise
        return Kept(built, explained(error))
    return None


def _usage(client: Client) -> dict[str, Any]:
    """Ask how large the layers are; return {} if the engine does not know.

    The SDK's own call has the engine measure its volumes as well, which takes long.
    """
    address = f"{client.base_url}/v{client.api_version}/system/df"
    with contextlib.suppress(ValueError, *FAILURES):
        found = client.get(address, params={"type": "image"}).json()
        return found if isinstance(found, dict) else {}
    return {}


def _known(size: int | None) -> int | None:
    return None if size is None or size < 0 else size


def image_facts(client: Client, project: Project, spec: BuildSpec) -> ImageFacts:
    """Return the engine's images and the inputs of a build."""
    with failing("list its images"):
        version = client.version()
        found = client.images()
    present = _present(found)
    platform = f"{version['Os']}/{version['Arch']}"
    if spec.names_image:
        return ImageFacts(present, platform)
    dockerfile = (spec.build_image or BuildImage()).dockerfile
    text = context.read_text(project.folder, dockerfile)
    if text is None:
        return ImageFacts(present, platform)
    names = context.names(project, dockerfile)
    return ImageFacts(
        present,
        platform,
        text,
        context.checksum(project.folder, names),
        origin(project.shown),
        recognised(found),
    )


def prepare(
    client: Client,
    probe: EngineProbe,
    info: Info,
    plan: ImagePlan,
    project: Project,
    cancel: Cancel,
) -> Iterator[Event]:
    """Pull or build as planned; the last event is ImageReady."""
    if plan.action is ImageAction.PULL:
        try:
            yield from transfer.pull(probe, plan, cancel)
        except ImageError as error:
            if not plan.named_by:
                raise
            raise image_names.explained(error, plan) from error
    elif plan.action is ImageAction.BUILD:
        yield from _build(probe, info, plan, project, cancel)
        if not cancel.requested:
            _tag(client, plan)
            _tag_for_the_next_run(client, plan)
    else:
        _tag(client, plan)
    if cancel.requested:
        return
    if plan.action is ImageAction.BUILD and plan.build and plan.build.push:
        yield from transfer.push(
            probe,
            plan.reference,
            plan.build.push.image_name,
            cancel,
            plan.limits.build_time_s,
        )
    found = _found(client, plan)
    yield from _suited(plan.reference, found, info, probe)
    yield ImageReady(_used(plan, found))


def _present(found: list[dict[str, Any]]) -> dict[str, str]:
    """Map the names and the ids of images to their ids."""
    return {name: each["Id"] for each in found for name in (*names(each), each["Id"])}


def _tag_for_the_next_run(client: Client, plan: ImagePlan) -> None:
    """Tag a build by the key that it has now that its bases are on the engine.

    The key of the plan lacks a base that the build itself pulled. Files edited since
    are not in the image, so only the bases are looked up again.
    """
    if plan.parts is None:
        return
    with failing(f"tag the image {plan.reference}"):
        now = fetches.checksum_of_bases(plan.bases, _present(client.images()))
        later = fetches.reference(replace(plan.parts, bases=now))
        if later != plan.reference:
            client.tag(plan.reference, later)


def _found(client: Client, plan: ImagePlan) -> dict[str, Any]:
    with failing(f"look at the image {plan.reference}"):
        try:
            return image(client, plan.reference)
        except NotFound as error:
            text = f"the image {plan.reference} is no longer on the engine"
            raise ImageError(text, reason=Reason.IMAGE_NOT_FOUND) from error


def _suited(
    name: str, found: Mapping[str, Any], info: Info, probe: EngineProbe
) -> Iterator[Event]:
    """Compare the architectures of an image and its engine; warn of an emulator's.

    Whether another machine has an emulator shows only when the image is started.

    Raises:
        ImageError: this machine has none.
    """
    wanted = found.get("Architecture") or ""
    own = info.get("Architecture") or ""
    if not images.differ(wanted, own):
        return
    if is_here(info, probe.endpoint) and not machine.emulates(images.emulator(wanted)):
        raise images.unsuitable(name, wanted, own)
    yield Warned(images.emulated(name, wanted, own))


def _used(plan: ImagePlan, found: Mapping[str, Any]) -> ImageUsed:
    digests = found.get("RepoDigests") or ()
    digest = digests[0].partition("@")[2] if digests else found["Id"]
    return ImageUsed(
        plan.reference,
        digest,
        plan.action,
        plan.why,
        cuda_version(found["Config"]),
        plan.asked,
        plan.named_by,
    )


def cuda_version(config: Mapping[str, Any]) -> str:
    """Return an image's CUDA version: from rai's label, else from CUDA_VERSION."""
    labels = config.get("Labels") or {}
    variables = dict(line.partition("=")[::2] for line in config.get("Env") or ())
    return str(labels.get("rai.cuda") or variables.get("CUDA_VERSION") or "")


def _build(
    probe: EngineProbe, info: Info, plan: ImagePlan, project: Project, cancel: Cancel
) -> Iterator[Event]:
    """Build and tag the image; raise ImageError with the step that failed."""
    asked = plan.build
    if asked is None:
        raise EngineError(f"a plan to build {plan.reference} has no build")
    until = time.monotonic() + plan.limits.build_time_s
    text = context.read_text(project.folder, asked.dockerfile) or ""
    if plan.parts and plan.parts.dockerfile != fetches.checksum(text):
        raise context.changed(asked.dockerfile)
    with _group(info, probe.endpoint, plan.limits) as group:
        run = BuildRun(probe, plan, asked, text, until, group, cancel)
        builder = builds.found(probe.endpoint, grouped=group is not None)
        fetches.check(text, asked, buildkit=builder is not None)
        if builder is None:
            yield from classic.build(run, info, project)
        else:
            missing = builder.unenforced
            yield BuildStarted(plan.reference, plan.why, builder.name, missing)
            yield from builds.build(run, project)


@contextmanager
def _group(info: Info, endpoint: Endpoint, limits: Limits) -> Iterator[Group | None]:
    """Make the control group of a build; at the end kill what is in it, and remove it.

    The engine makes the containers of all steps in it: its API can limit their memory,
    but not their processes. None where this user may not make one.
    """
    group = None
    if can_group_builds(info, endpoint):
        own = replace(limits, pids=limits.build_pids)
        with suppress(OSError):
            group = Group(f"build-{os.urandom(4).hex()}", own, at_top=True)
    try:
        yield group
    finally:
        if group is not None:
            group.close()


def _tag(client: Client, plan: ImagePlan) -> None:
    """Add the plan's other tags to an image that is there."""
    with failing(f"tag the image {plan.reference}"):
        for name in plan.tags:
            client.tag(plan.reference, name)
