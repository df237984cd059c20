"""What protects the dashboard in a browser: headers of every answer, the rule against other sites, own addresses."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from tenure.errors import SettingsError

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: dict[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
NO_STORE = "no-store"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_BACK = 8192
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\U0010ffff\\]")


def origins(texts: Iterable[str]) -> frozenset[str]:
    """Origins such as `https://ops.example.com`, in one spelling; raises SettingsError for what is none."""
    found = set()
    for text in texts:
        parts = urlsplit(text)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.path.strip("/") or parts.query:
            raise SettingsError(f"{text!r} is no origin; write scheme and host, such as https://ops.example.com")
        found.add(f"{parts.scheme}://{_host(parts.scheme, parts.netloc)}")
    return frozenset(found)


def cross_site_fault(method: str, headers: Mapping[str, str], trusted: frozenset[str]) -> str | None:
    """Why a request must be refused because another site may have sent it; None if it may pass.

    The rule of Go 1.25. Browsers tell where a request comes from, and a page cannot change these headers. A request
    without them does not come from a browser of today, so it must carry a token of its own instead of a cookie.
    """
    if method in SAFE_METHODS:
        return None
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if origin is not None and _spelled(origin) in trusted:
        return None
    if site is not None:
        return None if site in ("same-origin", "none") else f"a page of another site sent it ({origin or site})"
    if origin is not None:
        return None if _is_own(origin, headers.get("host", "")) else f"a page of {origin!r} sent it"
    if headers.get("authorization", "").lower().startswith("bearer "):
        return None
    return "it names no origin; a program must use a token, in the header Authorization: Bearer"


def inside(back: str, root: str) -> str | None:
    """The address inside the dashboard that `back` names, with or without the prefix; None if it leads elsewhere."""
    if not back or len(back) > _MAX_BACK or _UNSAFE.search(back) or not back.startswith("/") or back.startswith("//"):
        return None
    path = unquote(urlsplit(back).path)
    if "\\" in path or "//" in path or any(part in (".", "..") for part in path.split("/")):
        return None
    return back if not root or back == root or back.startswith((f"{root}/", f"{root}?")) else f"{root}{back}"


def _is_own(origin: str, host: str) -> bool:
    scheme = urlsplit(origin).scheme
    return bool(host) and scheme in _DEFAULT_PORTS and _spelled(origin) == f"{scheme}://{_host(scheme, host)}"


def _spelled(origin: str) -> str:
    scheme, _, host = origin.partition("://")
    return f"{scheme}://{_host(scheme, host)}"


def _host(scheme: str, host: str) -> str:
    return host.lower().removesuffix(f":{_DEFAULT_PORTS.get(scheme)}")
