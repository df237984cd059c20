"""SecureResponses: every answer gets security headers; one to HEAD has no body, and a path has one spelling."""

from urllib.parse import unquote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenure.web.security import HEADERS, NO_STORE


class SecureResponses:
    """Wraps the application. WebSockets are closed; the dashboard uses none."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", NO_STORE)
            elif message["type"] == "http.response.body" and scope["method"] == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        await self._app(_with_one_spelling(scope), receive, send_guarded)


def _with_one_spelling(scope: Scope) -> Scope:
    """The path with its prefix, and without a slash at the end, which does not matter."""
    root = scope.get("root_path", "").rstrip("/")
    path = scope["path"].rstrip("/")
    if not root and (stripped := _stripped_prefix(scope, path)):
        root, path = stripped, f"{stripped}{path}"
    return {**scope, "root_path": root, "path": f"{root}/" if path in ("", root) else path}


def _stripped_prefix(scope: Scope, path: str) -> str:
    """The prefix that a host took from the path without telling it in `root_path`, as Litestar does."""
    raw: bytes | None = scope.get("raw_path")
    whole = "" if raw is None else unquote(raw.partition(b"?")[0].decode("latin-1")).rstrip("/")
    return whole.removesuffix(path) if whole.endswith(path) else ""
