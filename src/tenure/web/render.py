"""Renders models as HTML: the templates, and the frame that is around every page."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct, structs

from tenure import __version__
from tenure.app.dashboard.access import Access
from tenure.app.dashboard.checks import warning_count
from tenure.app.dashboard.core import Dashboard
from tenure.app.dashboard.figures import Figures
from tenure.web import text
from tenure.web.environment import template_environment
from tenure.web.pages import GROUPS, PAGES, Page
from tenure.web.place import Deployment, app_name, place_of, place_without_backend
from tenure.web.static_files import StaticFiles


class NavEntry(Struct, frozen=True, kw_only=True):
    key: str
    name: str
    href: str
    count: str | None = None
    tone: str | None = None


class NavGroup(Struct, frozen=True):
    name: str
    entries: tuple[NavEntry, ...]


class PageFrame(Struct, frozen=True, kw_only=True):
    """The frame of a page: what the top bar, the navigation and the foot show.

    `assets` changes with every change of a static file; `may_sign_out` is False where no session of ours is used.
    """

    app: str
    environment: str
    backend: str
    version: str
    schema: int | None
    updated: datetime
    user: str
    role: str
    stale: str | None
    live: int
    theme: str
    keys: bool
    page: str
    nav: tuple[NavGroup, ...]
    root: str
    path: str
    query: str
    assets: str = ""
    may_sign_out: bool = False


class BareFrame(Struct, frozen=True, kw_only=True):
    """The frame of a page for a user who is not known."""

    app: str
    environment: str
    version: str
    assets: str
    root: str
    theme: str


class Address(Struct, frozen=True, kw_only=True):
    """Where the reader is: the page, the prefix under which the dashboard is mounted, the path and the query string.

    The path has the prefix. `has_session` says whether the reader signed in here.
    """

    page: str
    root: str = ""
    path: str = "/"
    query: str = ""
    has_session: bool = False


class Preferences(Struct, frozen=True, kw_only=True):
    """What a user chose, kept in cookies."""

    live: int = 5
    theme: str = "auto"
    keys: bool = True


def shell_for(
    place: Deployment,
    figures: Figures,
    access: Access,
    preferences: Preferences,
    address: Address,
    counts: Mapping[str, tuple[str, str]],
) -> PageFrame:
    """`counts` are the texts and tones beside entries of the navigation."""
    return PageFrame(
        app=place.app,
        environment=place.environment,
        backend=place.backend,
        version=__version__,
        schema=place.schema,
        updated=figures.at,
        user=access.user,
        role=access.role,
        stale=figures.error,
        live=preferences.live,
        theme=preferences.theme,
        keys=preferences.keys,
        page=address.page,
        nav=_nav(address.root, access, counts),
        root=address.root,
        path=address.path,
        query=address.query,
        may_sign_out=address.has_session,
    )


def nav_counts(figures: Figures, access: Access, warnings: int) -> dict[str, tuple[str, str]]:
    """The counts that ask for something: dead letters, paused queues, open guards and warnings; and live workers."""
    seen = [each for each in figures.queues if access.sees(each.name)]
    dead, paused = sum(each.dead for each in seen), sum(each.paused_since is not None for each in seen)
    found: dict[str, tuple[str, str]] = {}
    if dead:
        found["dead"] = (text.short_number(dead), "problem")
    if paused:
        found["queues"] = (f"{paused} paused", "warning")
    if figures.workers is not None:
        found["workers"] = (str(len(figures.workers)), "plain")
    if figures.open_breakers:
        found["guards"] = (f"{len(figures.open_breakers)} open", "problem")
    if warnings:
        found["doctor"] = (str(warnings), "warning")
    return found


def _nav(root: str, access: Access, counts: Mapping[str, tuple[str, str]]) -> tuple[NavGroup, ...]:
    def entry(page: Page) -> NavEntry:
        count, tone = counts.get(page.key, (None, None))
        return NavEntry(key=page.key, name=page.title, href=f"{root}{page.path}", count=count, tone=tone)

    return tuple(
        NavGroup(group, tuple(entry(page) for page in PAGES if page.group == group and access.may_read(page.key)))
        for group in GROUPS
    )


class Renderer:
    """Makes the HTML of pages; asks the backend about itself at the first page, not before."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        self._templates = template_environment()
        self._templates.globals.update(urlencode=urlencode)
        self.static = StaticFiles()
        self._place: Deployment | None = None

    def page(
        self, template: str, access: Access, preferences: Preferences, address: Address, values: Mapping[str, Any]
    ) -> bytes:
        """A page in its frame. `values` are the model, the query and what else the template needs."""
        sources = self._dashboard.sources
        figures = sources.figures
        shell = shell_for(
            self._current_place(figures),
            figures,
            access,
            preferences,
            address,
            nav_counts(figures, access, warning_count(self._dashboard.sources)),
        )
        return self._render(
            template,
            shell=structs.replace(shell, assets=self.static.version),
            access=access,
            is_known=True,
            now=sources.now,
            toasts=(),
            values=values,
        )

    def bare(self, template: str, root: str, theme: str, values: Mapping[str, Any]) -> bytes:
        """A page without the frame, for a user who is not known; it tells nothing of the jobs."""
        settings = self._dashboard.sources.app.settings
        frame = BareFrame(
            app=app_name(settings.app), environment=settings.environment, version=__version__,
            assets=self.static.version, root=root, theme=theme,
        )  # fmt: skip
        return self._render(template, shell=frame, is_known=False, now=self._dashboard.sources.now, values=values)

    def _current_place(self, figures: Figures) -> Deployment:
        """What the top bar shows of the app; the backend is not asked while it does not answer."""
        if self._place is not None:
            return self._place
        app = self._dashboard.sources.app
        if figures.error is not None:
            return place_without_backend(app)
        self._place = place_of(app)
        return self._place

    def _render(self, template: str, *, values: Mapping[str, Any], **context: Any) -> bytes:
        return self._templates.get_template(template).render({**context, **values}).encode()
