"""What a server, its clients and its job host write to each other, as typed data.

``accounts``, ``uploads`` and ``remote_runs`` are the bodies of the HTTP interface,
``frames`` what a followed run is sent as, ``refusals`` the errors, and ``host`` the
messages between a server and the process beside it that carries runs out.
"""

API = "/api/v1"
API_VERSION = 1

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
FRAMES = "application/vnd.rai.frames"
"""The content type of a followed run."""

UPLOAD_OFFSET = "Upload-Offset"
"""The header with the number of bytes that the server has of an upload."""
