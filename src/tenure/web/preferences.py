"""Preferences: how often pages refresh, their colours, and single keys; kept in cookies, changed by a plain form."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from tenure.web.problems import HttpRefusal
from tenure.web.render import Preferences
from tenure.web.requests import UserRequest, see_other, set_cookie
from tenure.web.security import inside

_CHOICES: dict[str, tuple[str, ...]] = {
    "live": ("2", "5", "15", "0"),
    "theme": ("auto", "light", "dark"),
    "keys": ("on", "off"),
}
_ONE_YEAR = 31_536_000  # seconds


def preferences_of(request: Request) -> Preferences:
    """What the cookies say; anything else in them is ignored."""
    chosen = {name: request.cookies.get(f"tenure_{name}") for name in _CHOICES}
    known = {name: value for name, value in chosen.items() if value in _CHOICES[name]}
    default = Preferences()
    return Preferences(
        live=int(known.get("live") or default.live),
        theme=known.get("theme") or default.theme,
        keys=known.get("keys", "on") == "on",
    )


def change_preferences(user: UserRequest) -> Response:
    """Keep what the form says, and go back to the page that sent it."""
    form = dict(user.form)
    back = form.pop("back", None) or form.pop("next", None) or f"{user.root}/"
    for name, value in form.items():
        if value not in _CHOICES.get(name, ()):
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, f"{name}={value[:40]!r} is no preference.")
    target = inside(back, user.root)
    if target is None:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "The page to go back to is not of this dashboard.")
    response = see_other(target)
    for name, value in form.items():
        set_cookie(response, user.request, f"tenure_{name}", value, seconds=_ONE_YEAR, same_site="lax")
    return response
