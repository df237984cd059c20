"""Gate: decides who sends a request, and what a user gets who is not known."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from tenure.app.dashboard.access import Access
from tenure.web.problems import HttpRefusal
from tenure.web.render import Renderer
from tenure.web.requests import Form

Authenticate = Callable[[Request], Access | None]
AnyHandler = Callable[[Request, Form], Response]


class Gate(Protocol):
    """Decides who sends a request, and what a user gets who is not known."""

    def identify(self, request: Request) -> Access | None: ...

    def has_session(self, request: Request) -> bool:
        """Whether the user signed in here, and so may sign out."""
        ...

    def quick_check(self, request: Request) -> Callable[[], bool] | None:
        """A call that says whether the user of this request is still known, and that neither reads nor waits.

        It is good for a few seconds. None: every request must be identified anew.
        """
        ...

    def refuse(self, request: Request, renderer: Renderer) -> Response:
        """The answer to a user who is not known."""
        ...

    def routes(self, renderer: Renderer) -> Sequence[tuple[str, str, AnyHandler]]:
        """Path, method and handler of each route that needs no user."""
        ...


class HookGate:
    """Lets a function decide; who is not known can do nothing."""

    def __init__(self, authenticate: Authenticate) -> None:
        self._authenticate = authenticate

    def identify(self, request: Request) -> Access | None:
        return self._authenticate(request)

    def has_session(self, request: Request) -> bool:  # noqa: ARG002 - no session is ours
        return False

    def quick_check(self, request: Request) -> Callable[[], bool] | None:  # noqa: ARG002 - the function decides
        return None

    def refuse(self, request: Request, renderer: Renderer) -> Response:  # noqa: ARG002 - all get the same answer
        raise HttpRefusal(HTTPStatus.UNAUTHORIZED, "You are not known here.")

    def routes(self, renderer: Renderer) -> Sequence[tuple[str, str, AnyHandler]]:  # noqa: ARG002 - there are none
        return ()
