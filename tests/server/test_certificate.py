"""A server's own certificate."""

from __future__ import annotations

import stat
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from runner.core.addresses import fingerprint_of
from runner.core.errors import ConfigError
from runner.server import listening

NAMES = ["gpu.example.org", "192.0.2.7", "::1"]


@pytest.fixture
def made(tmp_path):
    files = (tmp_path / "tls" / "certificate.pem", tmp_path / "tls" / "key.pem")
    listening.make(*files, NAMES)
    return files


def test_it_lasts_ten_years(made):
    left_s = listening.ends_at(made[0]) - time.time()
    assert 9.9 < left_s / (365.25 * 86400) < 10.1


def test_only_its_user_can_read_the_key(made):
    assert stat.S_IMODE(made[1].stat().st_mode) == 0o600
    assert stat.S_IMODE(made[1].parent.stat().st_mode) == 0o700


def test_it_has_the_names_and_the_fingerprint_that_the_server_prints(made):
    found = x509.load_pem_x509_certificate(made[0].read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert sorted(str(name.value) for name in names) == sorted(NAMES)
    whole = found.public_bytes(serialization.Encoding.DER)
    assert listening.fingerprint(made[0]) == fingerprint_of(whole)


def test_what_is_no_certificate_with_its_key_is_refused(made, tmp_path):
    other = (tmp_path / "other.pem", tmp_path / "other.key")
    listening.make(*other, NAMES)
    listening.loaded(*made)
    for wrong in ((made[0], other[1]), (made[1], made[0]), (made[0], tmp_path / "no")):
        with pytest.raises(ConfigError):
            listening.loaded(*wrong)


def test_a_key_whose_certificate_was_never_written_is_replaced(made):
    before = made[1].read_bytes()
    made[0].unlink()
    listening.make(*made, NAMES)
    listening.loaded(*made)
    assert made[1].read_bytes() != before
