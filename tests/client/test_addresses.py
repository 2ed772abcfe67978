"""One spelling for each place that runs go to, and for each fingerprint."""

from __future__ import annotations

import hashlib

import pytest

from runner.core import addresses

DIGEST = hashlib.sha256(b"certificate").hexdigest()
WRITTEN = addresses.fingerprint_of(b"certificate")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://host:8443", "https://host:8443"),
        ("host:8443", "https://host:8443"),
        ("HTTPS://Host.Example:443/", "https://host.example"),
        (" https://host/rai/ ", "https://host/rai"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
        ("https://10.0.0.7:8443", "https://10.0.0.7:8443"),
        ("https://[2001:DB8::1]:8443", "https://[2001:db8::1]:8443"),
        ("http://localhost:80", "http://localhost"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("/run/rai/server.sock", "unix:///run/rai/server.sock"),
        ("unix:///run//rai/../s.sock", "unix:///run/s.sock"),
    ],
)
def test_an_address_has_one_spelling(text, url):
    assert addresses.normal(text) == url
    assert addresses.normal(url) == url
    assert addresses.spelled(text) == url


@pytest.mark.parametrize(
    "text",
    [
        *("", "   ", "https://", "https:///x", "ftp://host", "unix://s.sock"),
        *("unix:///", "unix:///s?x", "http://host", "http://10.0.0.7"),
        *("https://u:p@host", "https://host?x=1", "https://host#x", "https://h\x00t"),
        *("https://host:0", "https://host:65536", "https://host:99999999", "a b"),
        *("https://host:", "https://-host", "https://ho st", "https://host/../x"),
        *("https://[::1", "https://host/%2e%2e/", "https://ho\nst", "x" * 5000),
        *("https://host:8443:1", "https://h\u202eost", "https://a..b", "http://evil"),
    ],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        addresses.normal(text)
    assert addresses.spelled(text) is None


def test_here_is_this_machine_in_the_place_of_an_address():
    assert addresses.spelled(" Here ") == "here"


def test_an_address_names_what_is_connected_to():
    assert addresses.host_and_port("https://host/rai") == ("host", 443)
    assert addresses.host_and_port("http://[::1]:80") == ("::1", 80)
    assert addresses.socket_path("unix:///run/s.sock") == "/run/s.sock"
    assert addresses.socket_path("https://host") == ""


def test_a_fingerprint_has_one_spelling():
    assert WRITTEN.startswith("SHA256:")
    assert WRITTEN.count(":") == 32
    for text in (WRITTEN, DIGEST, DIGEST.upper(), WRITTEN.lower(), f" {WRITTEN}\n"):
        assert addresses.fingerprint(text) == WRITTEN


@pytest.mark.parametrize("text", ["", "SHA256:", DIGEST[:-1], DIGEST + "0", "MD5:ab"])
def test_what_is_no_fingerprint_is_none(text):
    assert addresses.fingerprint(text) is None


@pytest.mark.parametrize(
    ("text", "partition"),
    [
        *(("slurm", ""), (" slurm ", ""), ("Slurm:gpu", "gpu"), ("slurm:gpu", "gpu")),
        ("slurm:a.b-c_2", "a.b-c_2"),
    ],
)
def test_a_partition_is_named_after_a_colon(text: str, partition: str):
    assert addresses.slurm_target(text) == addresses.SlurmTarget(partition)
    assert addresses.slurm_target(
        str(addresses.SlurmTarget(partition))
    ) == addresses.SlurmTarget(partition)


@pytest.mark.parametrize(
    "text",
    [
        *("", "slurmy", "slurm:", "slurm:-x", "slurm:a b", "slurm:a,b"),
        *("slurm:a\nb", "slurm:" + 101 * "a", "slurm://host", "https://slurm", "here"),
    ],
)
def test_anything_else_is_no_place_of_slurm(text: str):
    assert addresses.slurm_target(text) is None


def test_words_for_sbatch_are_written_as_for_a_shell():
    text = "--reservation=ece408 --comment='two words' --constraint='a100|h100'"
    found = ("--reservation=ece408", "--comment=two words", "--constraint=a100|h100")
    assert addresses.sbatch_words(text) == found


@pytest.mark.parametrize(
    "text",
    [
        *("", "gpu", "--nice", "--nice=", "-n1", "--nice=1 x", "--nice 1", "--"),
        *("--array=1-3", "--acc=x", "--wrap=id", "--requeue", "--mem=0", "--gpus=1"),
        *("--output=/x", "--export=ALL", "--partition=x", "--comment='x", "--comment"),
        *("--comment='a\nb'", "--comment=" + 5000 * "x"),
    ],
)
def test_other_words_for_sbatch_are_refused(text: str):
    assert addresses.sbatch_words(text) is None
