"""What a server, its clients and its job host write to each other, as typed data.

``accounts`` and ``remote_runs`` are the bodies of the HTTP interface, ``tail`` how a
run is followed, ``refusals`` the errors, and ``host`` the messages between a server and
the process beside it that carries runs out.
"""

API = "/api/v1"
API_VERSION = 1

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
