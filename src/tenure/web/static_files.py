"""Static files: read once, kept in memory, and served for ever under an address that changes with their content."""

import hashlib
import mimetypes
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from tenure.web.problems import HttpRefusal

_ONE_YEAR = 31_536_000  # seconds
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}


class StaticFile(NamedTuple):
    content: bytes
    media_type: str
    etag: str


class StaticFiles:
    """The files of the folder `static`; `version` is a hash of all of them, which pages put into the addresses."""

    def __init__(self) -> None:
        self._files = {name: _static_file(name, content) for name, content in _read(files("tenure.web") / "static", "")}
        joined = "".join(f"{name} {file.etag}" for name, file in sorted(self._files.items()))
        self.version = hashlib.sha256(joined.encode()).hexdigest()[:16]

    def answer(self, request: Request) -> Response:
        """A file; its address with the version never changes its content, so browsers need not ask again."""
        file = self._files.get(request.path_params["path"])
        if file is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "There is no such file.")
        is_current = request.scope.get("query_string", b"") == self.version.encode()
        headers = {
            "etag": file.etag,
            "cache-control": f"public, max-age={_ONE_YEAR}, immutable" if is_current else "no-cache",
        }
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(file.content, media_type=file.media_type, headers=headers)


def _read(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _read(each, f"{prefix}{each.name}/")
        else:
            found.append((f"{prefix}{each.name}", each.read_bytes()))
    return found


def _static_file(name: str, content: bytes) -> StaticFile:
    suffix = f".{name.rpartition('.')[2]}"
    kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return StaticFile(content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
