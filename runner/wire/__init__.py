"""What a server, its clients and its workers write to each other, as typed data.

``accounts`` and ``remote_runs`` are the bodies of the HTTP interface, ``tail`` how a
run is followed, ``refusals`` the errors, and ``capacity`` what a worker's user says
that the machine can run.
"""

API = "/api/v1"
API_VERSION = 1

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
