"""Units for systemd: a server and its workers, each as a user of its own. Pure.

systemd.exec(5), systemd.service(5) and systemd.resource-control(5) describe the keys.
"""

from __future__ import annotations

from collections.abc import Sequence

SERVER_UNIT = "rai-server.service"
SOCKET_UNIT = "rai-worker.socket"
WORKER_UNIT = "rai-worker@.service"
SOCKET = "/run/rai-worker.sock"
HOME = "/var/lib/rai-runs"
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
UMask=0007
"""
"""The server runs nothing itself, and so needs next to nothing of the machine."""


def units(
    rai: str, python: str, options: Sequence[str], *, docker: bool
) -> dict[str, str]:
    """Return the files by name; ``rai`` and ``python`` are the programs' whole paths.

    ``options`` are those of `rai server serve`; with ``docker`` the workers' user is
    of the group that may use the Docker Engine.
    """
    words = " ".join(map(_quoted, options))
    serve = f"{_quoted(rai)} server serve --state /var/lib/rai-server"
    given = f"--socket /run/rai/server.sock --workers {SOCKET} --home {HOME}"
    return {
        SERVER_UNIT: _server(f"{serve} {given} {words}".rstrip()),
        SOCKET_UNIT: _socket(),
        WORKER_UNIT: _worker(_quoted(python), docker=docker),
        USERS: _users(docker=docker),
    }


def _server(command: str) -> str:
    return f"""\
[Unit]
Description=rai server: people, uploads and the queue of runs
Documentation=man:systemd.service(5)
After=network-online.target {SOCKET_UNIT}
Wants=network-online.target
Requires={SOCKET_UNIT}

[Service]
Type=exec
User=rai-server
Group=rai-server
# It reads the folders of the runs by the group that it shares with the workers.
SupplementaryGroups=rai-runs
StateDirectory=rai-server
StateDirectoryMode=0700
RuntimeDirectory=rai
RuntimeDirectoryMode=0755
ReadWritePaths={HOME}
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


def _socket() -> str:
    return f"""\
[Unit]
Description=rai workers: one is started for each connection of rai-server
Documentation=man:systemd.socket(5)

[Socket]
ListenStream={SOCKET}
Accept=yes
MaxConnections=4096
# For the server's group alone.
SocketUser=root
SocketGroup=rai-server
SocketMode=0660
# What is made in the home of the runs has its group.
ExecStartPre=install -d -o rai-worker -g rai-runs -m 2770 {HOME} {HOME}/runs

[Install]
WantedBy=sockets.target
"""


def _worker(python: str, *, docker: bool) -> str:
    after = " docker.service" if docker else ""
    group = "SupplementaryGroups=docker\n" if docker else ""
    return f"""\
[Unit]
Description=rai worker: runs what rai-server asks for
Documentation=man:systemd.service(5)
After=local-fs.target{after}
CollectMode=inactive-or-failed

[Service]
Type=exec
User=rai-worker
Group=rai-runs
{group}# One line comes in, a run's id or `facts`, and one goes out.
StandardInput=socket
StandardOutput=socket
StandardError=journal
Environment=RAI_HOME={HOME}
# RAI_ENGINE, RAI_DATA_DIR and other settings of runs.
EnvironmentFile=-/etc/rai/worker.env
ExecStart={python} -m runner.worker --for-server
# It ends the run and what belongs to it by itself.
KillMode=mixed
TimeoutStopSec=60
# A run gets control groups of its own below this unit's.
Delegate=cpu memory pids
LimitNOFILE=16384
TasksMax=infinity
# A command that is out of memory ends alone.
OOMPolicy=continue
# Sandboxes need namespaces, devices, and a whole /proc to mount theirs, so that less is
# closed here than to the server.
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
StateDirectory=rai-worker
StateDirectoryMode=0700
ReadWritePaths={HOME}
RestrictSUIDSGID=yes
SystemCallArchitectures=native
UMask=0007
"""


def _users(*, docker: bool) -> str:
    lines = [
        "# For systemd-sysusers: the users of rai-server.service, rai-worker@.service,",
        "# and the group by which the server reads the folders of the runs.",
        "g rai-runs -",
        'u rai-server - "rai server" /var/lib/rai-server',
        'u rai-worker - "rai workers" /var/lib/rai-worker',
        "m rai-server rai-runs",
        "m rai-worker rai-runs",
    ]
    if docker:
        lines.append("m rai-worker docker")
    return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    r"""Write a word of a command line as systemd reads it: "" \ % and $ doubled."""
    doubled = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")
    if doubled and not set(doubled) & set(" \t\n'\""):
        return doubled
    return '"' + doubled.replace('"', '\\"').replace("\n", "\\n") + '"'
