"""Flash: what an action did, carried by a short-lived signed cookie to the next page, which shows it once."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tenure.web.requests import root_of, set_cookie
from tenure.web.signing import Signer

COOKIE = "tenure_flash"
_SECONDS = 60
_MAX_TEXT = 500
_MAX_COOKIE = 3500  # bytes; browsers keep 4096


class Flash(Struct, frozen=True, kw_only=True):
    """A sentence, and the action with its fields that takes it back, if there is one."""

    text: str
    undo: str | None = None
    fields: tuple[tuple[str, str], ...] = ()


class FlashCookies:
    """Writes and reads the cookie; it holds for one user."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def put(self, response: Response, request: Request, user: str, flash: Flash) -> None:
        text = self._sign(msgspec.structs.replace(flash, text=flash.text[:_MAX_TEXT]), user)
        if len(text) > _MAX_COOKIE:  # the undo of a large selection
            text = self._sign(Flash(text=flash.text[:_MAX_TEXT]), user)
        set_cookie(response, request, COOKIE, text, seconds=_SECONDS)

    def toasts(self, request: Request, user: str) -> Sequence[dict[str, Any]]:
        """What the cookie says, for the template."""
        text = request.cookies.get(COOKIE)
        data = self._signer.opened("flash", text, user.encode()) if text else None
        if data is None:
            return ()
        flash = msgspec.json.decode(data, type=Flash)
        if flash.undo is None:
            return ({"text": flash.text},)
        undo = {"action": f"{root_of(request)}/act/{flash.undo}", "fields": flash.fields}
        return ({"text": flash.text, "undo": undo},)

    def _sign(self, flash: Flash, user: str) -> str:
        return self._signer.sign("flash", msgspec.json.encode(flash), user.encode())
