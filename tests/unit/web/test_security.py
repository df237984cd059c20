"""The rule against requests of other sites, and the addresses to which the dashboard sends a browser."""

import pytest

from tenure.errors import SettingsError
from tenure.web.security import cross_site_fault, inside, origins

OWN = {"host": "jobs.example.com"}
TRUSTED = origins(["https://ops.example.com"])


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_requests_that_change_nothing_pass_from_anywhere(method):
    assert cross_site_fault(method, {**OWN, "sec-fetch-site": "cross-site"}, frozenset()) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin", "origin": "https://proxy.example.com"},
        {"origin": "https://jobs.example.com"},
        {"origin": "http://jobs.example.com"},
        {"origin": "https://JOBS.example.com:443"},
        {"sec-fetch-site": "cross-site", "origin": "https://ops.example.com"},
        {"origin": "https://ops.example.com"},
        {"authorization": "Bearer tnr_x"},
    ],
)
def test_a_form_passes_if_the_browser_says_that_it_is_ours_or_trusted_or_with_a_token(headers):
    assert cross_site_fault("POST", {**OWN, **headers}, TRUSTED) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "https://other.example.com"},
        {"sec-fetch-site": "cross-site", "origin": "https://jobs.example.com"},
        {"sec-fetch-site": "cross-site", "authorization": "Bearer tnr_x"},
        {"origin": "https://evil.example"},
        {"origin": "https://jobs.example.com:8443"},
        {"origin": "https://jobs.example.com.evil.example"},
        {"origin": "null"},
        {"origin": "https://ops.example.com.evil.example"},
        {},
        {"authorization": "Basic b3BzOnB3"},
    ],
)
def test_a_form_of_another_site_or_without_origin_is_refused(headers):
    assert cross_site_fault("POST", {**OWN, **headers}, TRUSTED) is not None


def test_without_a_host_no_origin_is_ours():
    assert cross_site_fault("POST", {"origin": "https://"}, frozenset()) is not None
    assert cross_site_fault("POST", {"origin": "null", "host": ""}, frozenset()) is not None


@pytest.mark.parametrize("text", ["ops.example.com", "https://", "https://ops.example.com/path", "ftp://x", "*"])
def test_what_is_no_origin_is_refused(text):
    with pytest.raises(SettingsError, match="no origin"):
        origins([text])


@pytest.mark.parametrize(
    ("back", "root", "target"),
    [
        ("/queues?window=1h", "", "/queues?window=1h"),
        ("/tenure/queues", "/tenure", "/tenure/queues"),
        ("/tenure", "/tenure", "/tenure"),
        ("/queues", "/tenure", "/tenure/queues"),
        ("/tenure-other", "/tenure", "/tenure/tenure-other"),
        ("/jobs?next=//evil.example", "", "/jobs?next=//evil.example"),
    ],
)
def test_the_way_back_leads_into_the_dashboard(back, root, target):
    assert inside(back, root) == target


@pytest.mark.parametrize(
    "back",
    [
        *("", "queues", "https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example"),
        *("/%5Cevil.example", "/../admin", "/x/%2e%2e/admin", "/x\r\nset-cookie: a=b", "/x\ty", "javascript:alert(1)"),
        *("/a//b", "/" + "x" * 9000, "/café"),
    ],
)
def test_no_way_back_leads_anywhere_else(back):
    assert inside(back, "") is None
