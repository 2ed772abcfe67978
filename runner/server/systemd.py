"""Units for systemd: a server and its job host, each as a user of its own. Pure.

systemd.exec(5), systemd.service(5) and systemd.resource-control(5) describe the keys.
"""

from __future__ import annotations

from collections.abc import Sequence

SERVER_UNIT = "rai-server.service"
JOBS_UNIT = "rai-jobs.service"
USERS = "rai.conf"
"""What systemd-sysusers reads: the users of the units."""

_CLOSED = """\
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077
"""
"""The server runs no job, and so needs next to nothing of the machine."""


def units(rai: str, options: Sequence[str], *, docker: bool) -> dict[str, str]:
    """Return the files by name; ``rai`` is the program's whole path.

    ``options`` are those of `rai server serve`; with ``docker`` the job host's user is
    of the group that may use the Docker Engine.
    """
    words = " ".join(map(_quoted, options))
    serve = f"{_quoted(rai)} server serve --state /var/lib/rai-server"
    sockets = "--socket /run/rai/server.sock --jobs /run/rai-jobs/jobs.sock"
    return {
        SERVER_UNIT: _server(f"{serve} {sockets} {words}".rstrip()),
        JOBS_UNIT: _jobs(_quoted(rai), docker=docker),
        USERS: _users(docker=docker),
    }


def _server(command: str) -> str:
    return f"""\
[Unit]
Description=rai server: people, uploads and the queue of runs
Documentation=man:systemd.service(5)
After=network-online.target {JOBS_UNIT}
Wants=network-online.target {JOBS_UNIT}

[Service]
Type=exec
User=rai-server
Group=rai-server
SupplementaryGroups=rai-jobs
StateDirectory=rai-server
StateDirectoryMode=0700
RuntimeDirectory=rai
RuntimeDirectoryMode=0755
# RAI_DATABASE_URL, if the store is PostgreSQL; readable by root only.
EnvironmentFile=-/etc/rai/server.env
ExecStart={command}
Restart=on-failure
RestartSec=1
TimeoutStopSec=20
LimitNOFILE=16384
{_CLOSED}
[Install]
WantedBy=multi-user.target
"""


def _jobs(rai: str, *, docker: bool) -> str:
    command = f"{rai} server jobs --socket /run/rai-jobs/jobs.sock --peer rai-server"
    after = " docker.service" if docker else ""
    group = "SupplementaryGroups=docker\n" if docker else ""
    return f"""\
[Unit]
Description=rai job host: carries out the runs of rai-server
Documentation=man:systemd.service(5)
After=local-fs.target{after}

[Service]
Type=exec
User=rai-jobs
Group=rai-jobs
{group}StateDirectory=rai-jobs
StateDirectoryMode=0700
RuntimeDirectory=rai-jobs
RuntimeDirectoryMode=0750
# RAI_ENGINE, RAI_DATA_DIR and other settings of runs.
EnvironmentFile=-/etc/rai/jobs.env
ExecStart={command} --home /var/lib/rai-jobs
Restart=on-failure
RestartSec=1
# A restart leaves runs running: each has a process of its own in this unit.
KillMode=process
SendSIGKILL=no
# Runs get control groups of their own below this unit's.
Delegate=cpu memory pids
LimitNOFILE=16384
TasksMax=infinity
# A run that is out of memory ends alone.
OOMPolicy=continue
# Sandboxes need namespaces, devices, and a whole /proc to mount theirs, so that less is
# closed here than to the server.
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=multi-user.target
"""


def _users(*, docker: bool) -> str:
    lines = [
        "# For systemd-sysusers: the users of rai-server.service and rai-jobs.service.",
        'u rai-server - "rai server" /var/lib/rai-server',
        'u rai-jobs - "rai job host" /var/lib/rai-jobs',
    ]
    if docker:
        lines.append("m rai-jobs docker")
    return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    r"""Write a word of a command line as systemd reads it: "" \ % and $ doubled."""
    doubled = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")
    if doubled and not set(doubled) & set(" \t\n'\""):
        return doubled
    return '"' + doubled.replace('"', '\\"').replace("\n", "\\n") + '"'
