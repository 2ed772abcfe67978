"""What a server, its clients and its workers write to each other, as typed data.

``accounts`` and ``remote_runs`` are bodies of the HTTP interface; that by which a run
is asked for is ``core.request``'s. ``tail`` is how a run is followed, ``refusals`` are
the errors, and ``capacity`` is what a worker's user says that the machine can run.
"""

API = "/api/v1"
API_VERSION = 1

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
