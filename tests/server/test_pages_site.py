"""`rai web` at a real server: from the link to a run's report."""

from __future__ import annotations

import pytest
import requests

from tests.kit import begun
from tests.kit.site import serving

pytestmark = [pytest.mark.local, pytest.mark.programs]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("site")) as found:
        yield found


def test_rai_web_prints_a_link_to_ones_runs_and_their_reports(site, tmp_path):
    ada = site.stranger("red", "ada")
    (code,) = site.codes("red", "ada")
    pinned = ("--fingerprint", site.fingerprint)
    assert ada.rai("login", site.url, *pinned, input=code).returncode == 0
    ran = ada.rai("run", "-p", begun.project(tmp_path / "p", "echo hello"))
    assert ran.returncode == 0, ran.stderr
    printed = ada.rai("web")
    assert printed.returncode == 0, printed.stderr
    link = printed.stdout.splitlines()[0]
    assert link.startswith(f"{site.url}/enter?code=")

    with requests.Session() as browser:
        browser.trust_env = False
        browser.verify = str(site.state / "tls" / "certificate.pem")
        assert browser.get(link).status_code == 200
        code, origin = {"code": link.partition("=")[2]}, {"Origin": site.url}
        mine = browser.post(f"{site.url}/enter", code, headers=origin)
        assert mine.status_code == 200, mine.text
        run = mine.text.partition('href="/runs/')[2][:10]
        assert "hello" in browser.get(f"{site.url}/runs/{run}").text
        report = browser.get(f"{site.url}/runs/{run}/report")
        assert report.status_code == 200 and "hello" in report.text
        assert (
            browser.get(f"{site.url}/runs/{run}/build").content[:4]
            == b"\x28\xb5\x2f\xfd"
        )
        again = browser.post(f"{site.url}/enter", code, headers=origin)
        assert again.status_code == 403


def test_a_server_at_a_socket_alone_has_no_pages_to_open(site):
    bo = site.person("red", "bo")
    (code,) = site.codes("red", "bo")
    assert bo.rai("login", f"unix://{site.socket}", input=code).returncode == 0
    refused = bo.rai("web")
    assert refused.returncode == 2
    assert "no browser can open" in refused.stderr
