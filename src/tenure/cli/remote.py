"""RemoteDashboard: reads and acts through the JSON API of a dashboard, for `tenure --remote URL`.

The token comes from the variable TENURE_REMOTE_TOKEN, or from the file that TENURE_REMOTE_TOKEN_FILE names.
"""

import http.client
import os
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints
from urllib.parse import quote, urlencode, urlsplit

import click
import msgspec

from tenure import __version__
from tenure.app.dashboard.action_record import ActionRecord
from tenure.app.dashboard.core import Command, Preview, Query
from tenure.cli.errors import CommandError
from tenure.settings.environment import REMOTE_TOKEN

_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.5
M = TypeVar("M")


class RemoteDashboard:
    """A dashboard in another process, reached over HTTP."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise CommandError(
                f"--remote takes the address of a dashboard, such as https://jobs.example.com, not {url!r}"
            )
        if parts.username or parts.password:
            raise CommandError(
                f"the address of the dashboard must not contain a password; put a token into {REMOTE_TOKEN}"
            )
        self._scheme, self._host, self._port = parts.scheme, parts.hostname, parts.port
        self._root = parts.path.rstrip("/")
        self._shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._token = token

    def read(self, query: Query[M]) -> M:
        """The model that the dashboard has for this query."""
        path, parameters = _address(query)
        answer = self._request("GET", f"{path}{'?' if parameters else ''}{urlencode(parameters)}")
        model: M = self._decoded(answer, get_type_hints(type(query).read)["return"])
        return model

    def preview(self, command: Command) -> Preview:
        """What the command would do."""
        body = msgspec.json.encode(command)
        return self._decoded(self._request("POST", f"/act/{command.action}?dry_run=1", body), Preview)

    def act(
        self, command: Command, why: str | None = None, progress: Callable[[ActionRecord], None] | None = None
    ) -> ActionRecord:
        """Do it, and wait until it has ended; `progress` is called with each record on the way."""
        fields = {**msgspec.to_builtins(command), **({} if why is None else {"why": why})}
        record = self._record(self._request("POST", f"/act/{command.action}", msgspec.json.encode(fields)))
        while record.state == "running":
            if progress is not None:
                progress(record)
            time.sleep(_POLL_SECONDS)
            record = self._record(self._request("GET", f"/actions/{quote(record.id, safe='')}"))
        if record.state == "failed":
            raise CommandError(f"{record.action} failed on {self._shown}: {record.error}")
        return record

    def refuse(self, is_given: object, option: str) -> None:
        """Raise if an option was given that needs the backend itself."""
        if is_given:
            raise CommandError(f"{option} needs the backend itself, and cannot be used with --remote")

    def _record(self, body: bytes) -> ActionRecord:
        return self._decoded(body, ActionRecord)

    def _decoded(self, body: bytes, kind: type[M]) -> M:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            raise CommandError(
                f"the dashboard at {self._shown} answered in a way that this release ({__version__}) does not "
                f"understand: {error}; use the same release on both sides"
            ) from error

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {"accept": "application/json", "content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        connection = self._connection()
        try:
            connection.request(method, f"{self._root}/api{path}", body, headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(f"the dashboard at {self._shown} does not answer: {error}") from error
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise CommandError(self._refusal(response.status, answer))
        if response.status >= http.client.MULTIPLE_CHOICES:  # a token must not follow a redirect to another host
            location = response.getheader("location")
            raise CommandError(f"the dashboard at {self._shown} sends to {location!r}: use its address after --remote")
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        if self._scheme == "http":
            return http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS, context=context)

    def _refusal(self, status: int, body: bytes) -> str:
        try:
            message = msgspec.json.decode(body, type=dict[str, Any])["message"]
        except (msgspec.MsgspecError, KeyError):
            message = f"status {status}, without an explanation: is this the address of a dashboard?"
        if status == http.client.UNAUTHORIZED:
            message = f"{message}; put a token into {REMOTE_TOKEN}, which `tenure dashboard --new-token` makes"
        return f"the dashboard at {self._shown} refuses: {message}"


def remote_dashboard() -> RemoteDashboard | None:
    """The dashboard that the option --remote names; None without the option."""
    url: str | None = click.get_current_context().find_root().params.get("remote")
    return None if url is None else RemoteDashboard(url, _token(os.environ))


def _token(environment: Mapping[str, str]) -> str | None:
    if (path := environment.get(f"{REMOTE_TOKEN}_FILE")) is not None:
        try:
            return Path(path).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{REMOTE_TOKEN}_FILE names a file that cannot be read: {error}") from error
    return environment.get(REMOTE_TOKEN)


def _address(query: Query[Any]) -> tuple[str, list[tuple[str, str]]]:
    """The path of a query below `/api`, and its parameters; members that have their default value are left out."""
    from tenure.web.pages import PAGES

    page = next(each for each in PAGES if each.query is type(query))
    path = "/overview" if page.path == "/" else page.path
    parameters: list[tuple[str, str]] = []
    kind: Any = type(query)
    for field in msgspec.structs.fields(kind):
        value = getattr(query, field.name)
        if f"{{{field.encode_name}" in path:
            path = path.replace(f"{{{field.encode_name}}}", quote(value, safe=""))
            path = path.replace(f"{{{field.encode_name}:path}}", quote(value, safe=""))
        elif value != field.default:
            values = value if isinstance(value, tuple) else (value,)
            parameters += [(field.encode_name, _text(each)) for each in values]
    return path, parameters


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode().strip('"')
