"""Actions: a page that asks before a command is done, and the form that does it."""

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct, structs
from starlette.responses import Response

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.catalogue import BY_ACTION
from tenure.app.dashboard.core import Command, Dashboard, Preview
from tenure.clock import to_datetime
from tenure.web.fields import from_fields, to_fields
from tenure.web.flash import Flash, FlashCookies
from tenure.web.problems import HttpRefusal
from tenure.web.requests import UserRequest, see_other
from tenure.web.security import inside

MAX_WHY = 1000  # characters
_CHANGED_SHARE = 0.1  # the user is asked again if the number has changed by more
_OWN_FIELDS = ("back", "why", "typed", "shown")
_WITHOUT_WHY = frozenset({"queue.resume", "schedule.resume", "worker.resume", "schedule.run"})
_WITHOUT_WHY_FOR_ONE = frozenset({"jobs.retry", "jobs.cancel"})

Show = Callable[[UserRequest, str, HTTPStatus, Mapping[str, Any]], Response]


class Asked(Struct, frozen=True, kw_only=True):
    """What the address or the form of an action says besides the fields of its command.

    `back` is where the user goes afterwards, `shown` the number of jobs that the user saw, `typed` the one that the
    user typed to confirm it.
    """

    back: str
    why: str = ""
    typed: str = ""
    shown: int | None = None


class Actions:
    """The routes below `/act`; `show` renders a template in the frame of the user."""

    def __init__(self, dashboard: Dashboard, flashes: FlashCookies, show: Show) -> None:
        self._dashboard = dashboard
        self._flashes = flashes
        self._show = show

    def ask(self, user: UserRequest) -> Response:
        """What the action would do, and a form to confirm it."""
        command, asked = self._read(user, user.request.query_params.multi_items())
        preview = self._dashboard.preview(command, user.access)
        return self._confirm(user, command, preview, asked, {}, HTTPStatus.OK)

    def act(self, user: UserRequest) -> Response:
        """Do it, and go back; a long action goes on in the background, and the user sees how far it is."""
        command, asked = self._read(user, user.form)
        preview = self._dashboard.preview(command, user.access)
        faults, status = _faults(command, preview, asked)
        if faults:
            return self._confirm(user, command, preview, asked, faults, status)
        command = _with_reason(command, asked.why)
        record = self._dashboard.start(command, user.access, asked.why or None, total=preview.total)
        if record.state == "running":
            return see_other(f"{user.root}/audit/{quote(record.id, safe='')}?{urlencode({'back': asked.back})}")
        response = see_other(asked.back)
        flash = _flash(command, command.outcome(record.counts), asked.back, user.access)
        self._flashes.put(response, user.request, user.access.user, flash)
        return response

    def progress(self, user: UserRequest) -> Response:
        """How far an action is, or how it ended."""
        record = self._dashboard.record(user.request.path_params["id"], user.access)
        access, is_running = user.access, record.state == "running"
        values = {
            "record": record,
            "done": sum(record.counts.values()),
            "began": to_datetime(record.at),
            "ended": None if record.ended_at is None else to_datetime(record.ended_at),
            "may_stop": is_running and access.may("bulk.stop") and access.may(record.action),
            "back": inside(user.request.query_params.get("back", ""), user.root),
        }
        return self._show(user, "action.html", HTTPStatus.OK, values)

    def stop(self, user: UserRequest) -> Response:
        """Ask a running action to stop after its current step."""
        given = dict(user.form)
        id, back = given.pop("id", ""), _checked_back(given.pop("back", ""), user.root)
        if not id or given:
            raise HttpRefusal(
                HTTPStatus.BAD_REQUEST, "The form must have the id of the action to stop, and nothing else."
            )
        self._dashboard.stop(id, user.access)
        return see_other(f"{user.root}/audit/{quote(id, safe='')}?{urlencode({'back': back})}")

    def _read(self, user: UserRequest, pairs: Iterable[tuple[str, str]]) -> tuple[Command, Asked]:
        action = user.request.path_params["action"]
        kind = BY_ACTION.get(action)
        if kind is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, f"There is no action {action[:80]!r}.")
        fields: list[tuple[str, str]] = []
        own: dict[str, str] = {}
        for name, value in pairs:
            if name not in _OWN_FIELDS:
                fields.append((name, value))
            elif name in own:
                raise HttpRefusal(HTTPStatus.BAD_REQUEST, f"The field {name!r} was sent twice.")
            else:
                own[name] = value
        if "token" in structs_fields(kind) and not any(name == "token" for name, _ in fields):
            fields.append(("token", secrets.token_hex(8)))  # a form that is sent twice has the same one
        return from_fields(kind, fields, where=f"the action {action}"), _asked(own, user.root)

    def _confirm(
        self,
        user: UserRequest,
        command: Command,
        preview: Preview,
        asked: Asked,
        faults: Mapping[str, str],
        status: HTTPStatus,
    ) -> Response:
        fields = [*to_fields(command), ("back", asked.back)]
        if preview.total is not None:
            fields.append(("shown", str(preview.total)))
        values = {
            "preview": preview,
            "action": f"{user.root}/act/{command.action}",
            "fields": fields,
            "asked": asked,
            "faults": faults,
            "needs_why": needs_why(command, preview),
            "max_why": MAX_WHY,
        }
        return self._show(user, "confirm.html", status, values)


def needs_why(command: Command, preview: Preview) -> bool:
    """Whether the user must give a reason: not for what takes back an action, nor for one job that is run or ended."""
    is_single = preview.total is None or preview.total <= 1
    return not (command.action in _WITHOUT_WHY or (is_single and command.action in _WITHOUT_WHY_FOR_ONE))


def structs_fields(kind: type[Any]) -> tuple[str, ...]:
    names: tuple[str, ...] = kind.__struct_fields__
    return names


def _asked(own: Mapping[str, str], root: str) -> Asked:
    shown, why = own.get("shown", ""), own.get("why", "").strip()
    if shown and not re.fullmatch(r"\d{1,12}", shown, re.ASCII):
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "The number of jobs in the form was changed.")
    return Asked(
        back=_checked_back(own.get("back", ""), root),
        why=why,
        typed=own.get("typed", "").strip(),
        shown=int(shown) if shown else None,
    )


def _checked_back(back: str, root: str) -> str:
    target = inside(back, root) if back else f"{root}/"
    if target is None:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "The page to go back to is not of this dashboard.")
    return target


def _faults(command: Command, preview: Preview, asked: Asked) -> tuple[dict[str, str], HTTPStatus]:
    """What the user must correct, by field, and the status that says it."""
    faults: dict[str, str] = {}
    if needs_why(command, preview) and not asked.why:
        faults["why"] = "Say why: the reason is written to the audit log."
    if len(asked.why) > MAX_WHY:
        faults["why"] = f"The reason is longer than {MAX_WHY:,} characters."
    if _has_changed(preview.total, asked.shown):
        faults["form"] = f"The number of jobs has changed from {asked.shown:,} to {preview.total:,}. Check it again."
        return faults, HTTPStatus.CONFLICT
    typed = re.sub(r"[\s,.']", "", asked.typed)
    if preview.must_type and (asked.shown is None or typed != str(asked.shown)):
        faults["typed"] = f"Type {preview.total} to confirm the number of jobs."
    return faults, HTTPStatus.BAD_REQUEST


def _has_changed(total: int | None, shown: int | None) -> bool:
    """Whether the number differs by more than a tenth from what the user saw."""
    return total is not None and shown is not None and abs(total - shown) > shown * _CHANGED_SHARE


def _with_reason(command: Command, why: str) -> Command:
    """The command with the user's words as its reason, where it has one, such as that of a pause."""
    if why and getattr(command, "reason", why) is None:
        changed: Command = structs.replace(command, reason=why)  # type: ignore[type-var]
        return changed
    return command


def _flash(command: Command, text: str, back: str, access: Access) -> Flash:
    undo = command.undo()
    if undo is None or not access.may(undo.action):
        return Flash(text=text)
    fields = (*to_fields(undo), ("back", back), ("why", f"undo of {command.action}"))
    return Flash(text=text, undo=undo.action, fields=tuple(fields))
