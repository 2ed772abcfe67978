"""What a container with a network reaches, with real servers around it."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import docker
import pytest
from msgspec import to_builtins

from runner.core import Place, Profile
from runner.core.policy import PrivateTarget
from runner.engines import netfilter
from runner.engines import network as private
from runner.engines.docker import DockerEngine
from runner.engines.docker.facts import PRIVATE
from tests.kit import old_kernel
from tests.kit.program import run_program
from tests.kit.running import IMAGE, RUN_ID, Subject, run

pytestmark = [pytest.mark.docker, pytest.mark.root]

ROOT = Profile.COMPATIBLE  # which has more rights
RAI = str(Path(sys.executable).with_name("rai"))
OLD_KERNEL = old_kernel.__file__
TRY = """\
try() { timeout 20 bash -c 'exec 3<>"/dev/$0/$1/$2" && echo >&3 &&
    [ "$(timeout 10 head -c 3 <&3)" ]' "$@" 2>/dev/null && echo "$1 $2"; }
"""
"""What is closed is refused at once; the times are for a machine with much to do."""

ECHO = (
    "use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 5, "
    "LocalPort => 8080) or die; while (my $c = $s->accept) { print $c qq(reached\\n) }"
)


@pytest.fixture(scope="module")
def engine() -> DockerEngine:
    found = DockerEngine()
    if PRIVATE in found.facts().unenforced_with_network:
        pytest.skip("the engine is not on this machine")
    return found


@pytest.fixture
def port() -> Iterator[int]:
    """Servers over TCP and UDP on every address of this machine."""
    with (
        socket.create_server(("", 0)) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        number: int = server.getsockname()[1]
        datagrams.bind(("", number))

        def tcp() -> None:
            with suppress(OSError):
                while True:
                    with closing(server.accept()[0]) as connection:
                        connection.sendall(b"reached\n")

        def udp() -> None:
            with suppress(OSError):
                while sender := datagrams.recvfrom(100)[1]:
                    datagrams.sendto(b"reached\n", sender)

        for serve in (tcp, udp):
            threading.Thread(target=serve, daemon=True).start()
        yield number
        for each in (server, datagrams):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def gateway(client: docker.APIClient) -> str:
    """This machine's address on the engine's bridge."""
    config = client.inspect_network("bridge")["IPAM"]["Config"][0]
    # Some versions name it only once the daemon was started again: it is the first.
    first = next(ipaddress.ip_network(config["Subnet"]).hosts())
    return str(config.get("Gateway", first))


@pytest.fixture
def other(client: docker.APIClient) -> Iterator[str]:
    """The address of another container, which listens on port 8080."""
    made = client.create_container(IMAGE, ["perl", "-e", ECHO], labels=[RUN_ID])
    try:
        client.start(made)
        found = client.inspect_container(made)["NetworkSettings"]["Networks"]
        yield found["bridge"]["IPAddress"]
    finally:
        client.remove_container(made, force=True)


def opened(network: str) -> PrivateTarget:
    place = Place("policy.yml", 1, 1)
    return PrivateTarget(network, place, ipaddress.ip_network(network))


def test_a_run_with_a_network_reaches_no_address_of_this_machine_nor_containers(
    engine: DockerEngine, port: int, gateway: str, other: str
) -> None:
    own = [str(a) for a in private.own_addresses() if a.version == 4]
    lines = [f"try {how} {a} {port}" for a in own for how in ("tcp", "udp")]
    lines += [f"try tcp {other} 8080", f"try tcp {gateway} 2375", "true"]
    script = TRY + "; ".join(lines)
    done = run(Subject(engine, IMAGE), [script], profile=ROOT, network=True)
    assert done.codes == [0], done.stderr
    assert done.stdout == b""
    # So it is not the network that is missing.
    script = TRY + "; ".join([*lines[:-1], "grep -q 00000000 /proc/net/route"])
    done = run(
        Subject(engine, IMAGE),
        [script],
        profile=ROOT,
        network=True,
        private=[opened(f"{gateway}/32"), opened(f"{other}/32")],
    )
    reached = set(done.stdout.decode().splitlines())
    assert done.codes == [0]
    assert reached == {f"tcp {gateway}", f"udp {gateway}", f"tcp {other}"}


def test_name_servers_are_asked_for_names_and_for_nothing_else(
    engine: DockerEngine, client: docker.APIClient
) -> None:
    found = private.name_servers(Path("/etc/resolv.conf").read_text())
    if not found or found[0].is_loopback or found[0].version == 6:
        pytest.skip("this machine's name server is its own")
    question = r"\x12\x34\x01\0\0\1\0\0\0\0\0\0\0\0\2\0\1"
    server = found[0]
    asked = f"exec 3<>/dev/udp/{server}/53; printf '{question}' >&3; "
    asked += "timeout 5 head -c 12 <&3 | wc -c"
    else_where = f"timeout 2 bash -c 'echo >/dev/tcp/{server}/80' 2>&1; true"
    done = run(Subject(engine, IMAGE), [asked, else_where], network=True)
    assert done.stdout.splitlines()[0] == b"12"
    assert b"No route to host" in done.stdout


def test_the_rules_cannot_be_changed_in_a_run(engine: DockerEngine) -> None:
    line = "grep CapEff /proc/self/status; unshare --net true 2>&1; true"
    for profile in Profile:
        done = run(Subject(engine, IMAGE), [line], profile=profile, network=True)
        effective = int(done.stdout.split()[1], 16)
        assert not effective & (1 << 12 | 1 << 13 | 1 << 21)  # net_admin, net_raw, sys
        assert b"not permitted" in done.stdout


def rai(*words: str, folder: Path) -> str:
    """Run the command line as on a kernel without nf_tables; return what it prints."""
    done = run_program(
        [sys.executable, OLD_KERNEL, RAI, *words],
        cwd=folder,
        env={**os.environ, "RAI_HOME": str(folder / "home"), "COLUMNS": "400"},
        timeout=120,
    )
    return f"{done.returncode} {done.stdout}{done.stderr}"


def test_a_kernel_without_rules_leaves_private_addresses_open_and_says_so(
    engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rai_build.yml").write_text(
        f"rai: {{version: 0.2, image: {IMAGE}}}\nresources: {{network: true}}\n"
        "commands: {build: [grep -c 00000000 /proc/net/route]}\n"
    )
    words = ("run", "-p", ".", "--engine", "docker")
    said = rai(*words, folder=tmp_path)
    assert said.startswith("0 ")
    assert "Not enforced here: private addresses" in said
    monkeypatch.setenv("RAI_STRICT_LIMITS", "true")
    refused = rai(*words, folder=tmp_path)
    assert "cannot enforce private addresses here" in refused
    assert "nf_tables" in refused
    assert "Running" not in refused
    assert "private addresses" in rai("doctor", folder=tmp_path)


@pytest.mark.parametrize("number", [0, 60, 500])
def test_a_policy_may_open_many_networks(number: int) -> None:
    networks = [
        ipaddress.ip_network(f"10.{n // 256}.{n % 256}.0/24") for n in range(number)
    ]
    wanted = to_builtins(private.rules([], networks, []))

    def close() -> str:
        netfilter.leave()
        netfilter.close(wanted)
        return "closed"

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(close).result() == "closed"
