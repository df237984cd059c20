"""The dashboard in other applications, at a path below theirs: a page, a static file, a redirect and an action."""

import io
import re
import threading
from collections.abc import Callable
from http.cookies import SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import urlencode
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import django
import flask
import litestar
import pytest
from django.conf import settings as django_settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from tenure import web
from tenure.app.dashboard.access import Access
from tests.support.web_app import PASSWORD, USERS, make_app

ROOT = "/ops/tenure"
OWN = {"origin": "http://testserver"}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


Ask = Callable[..., Answer]


@pytest.fixture(autouse=True)
def closed_dashboards(monkeypatch):
    """Closes every dashboard that a test makes: its threads would read figures until the end of the run."""
    made = []

    def kept(make):
        return lambda *args, **options: made.append(make(*args, **options)) or made[-1]

    monkeypatch.setattr(web, "asgi", kept(web.asgi))
    monkeypatch.setattr(web, "wsgi", kept(web.wsgi))
    yield
    for each in made:
        each.close()


@pytest.fixture
def app(tmp_path):
    with make_app(tmp_path, dashboard=USERS) as app:
        yield app


def asgi_browser(application: Any) -> Ask:
    client = TestClient(application, headers=OWN, follow_redirects=False)

    def ask(method: str, path: str, form: dict[str, str] | None = None) -> Answer:
        answer = client.request(method, path, data=form)
        return Answer(answer.status_code, dict(answer.headers), answer.text)

    return ask


def wsgi_browser(application: Any) -> Ask:
    cookies: dict[str, str] = {}

    def ask(method: str, path: str, form: dict[str, str] | None = None) -> Answer:
        body = urlencode(form or {}).encode()
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path.partition("?")[0],
            "QUERY_STRING": path.partition("?")[2], "HTTP_HOST": "testserver", "HTTP_ORIGIN": "http://testserver",
            "HTTP_COOKIE": "; ".join(f"{name}={value}" for name, value in cookies.items()),
            "wsgi.input": io.BytesIO(body), "REMOTE_ADDR": "127.0.0.1",
        }  # fmt: skip
        if form is not None:
            environ |= {"CONTENT_TYPE": "application/x-www-form-urlencoded", "CONTENT_LENGTH": str(len(body))}
        setup_testing_defaults(environ)
        heads: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            heads.append((status, headers))

        result = validator(application)(environ, start_response)
        text = b"".join(result).decode()
        result.close()
        ((status, headers),) = heads
        for name, value in headers:
            if name.lower() == "set-cookie":
                cookies.update({key: morsel.value for key, morsel in SimpleCookie(value).items()})
        return Answer(int(status.split()[0]), {name.lower(): value for name, value in headers}, text)

    return ask


def in_starlette(app, **options):
    return asgi_browser(Starlette(routes=[Mount(ROOT, web.asgi(app, **options))]))


def in_fastapi(app, **options):
    host = FastAPI()
    host.mount(ROOT, web.asgi(app, **options))
    return asgi_browser(host)


def in_litestar(app, **options):
    dashboard = web.asgi(app, **options)
    return asgi_browser(litestar.Litestar([litestar.asgi(ROOT, is_mount=True, copy_scope=True)(dashboard)]))


def in_django_asgi(app, **options):
    set_up_django()
    return asgi_browser(Starlette(routes=[Mount(ROOT, web.asgi(app, **options)), Mount("/", get_asgi_application())]))


def in_django_wsgi(app, **options):
    set_up_django()
    return wsgi_browser(DispatcherMiddleware(get_wsgi_application(), {ROOT: web.wsgi(app, **options)}))


def in_flask(app, **options):
    host = flask.Flask("host")
    host.wsgi_app = DispatcherMiddleware(host.wsgi_app, {ROOT: web.wsgi(app, **options)})
    return wsgi_browser(host.wsgi_app)


def set_up_django():
    if not django_settings.configured:
        django_settings.configure(ROOT_URLCONF=(), SECRET_KEY="for tests", ALLOWED_HOSTS=["testserver"])
        django.setup()


MOUNTS = [in_starlette, in_fastapi, in_litestar, in_django_asgi, in_django_wsgi, in_flask]


@pytest.fixture(params=MOUNTS, ids=lambda mount: mount.__name__)
def mount(request):
    return request.param


def test_pages_links_and_static_files_are_below_the_path(app, mount):
    ask = mount(app, access=lambda request: Access(user="ada", role="admin"))
    for path in (f"{ROOT}/", f"{ROOT}/queues", f"{ROOT}/queues?window=24h"):
        page = ask("GET", path)
        assert page.status == 200
        addresses = re.findall(r'(?:href|src|action)="([^"#]*)', page.text)
        assert addresses
        assert [each for each in addresses if each and not each.startswith((f"{ROOT}/", f"{ROOT}?"))] == []
    style = re.search(rf'href="({ROOT}/static/tenure\.css\?\w+)"', page.text)[1]
    assert ask("GET", style).headers["content-type"].startswith("text/css")
    assert ask("GET", f"{ROOT}/nothing").status == 404
    assert "There is no such page" in ask("GET", f"{ROOT}/nothing").text


def test_users_sign_in_act_and_sign_out_below_the_path(app, mount):
    ask = mount(app)
    stranger = ask("GET", f"{ROOT}/queues")
    assert (stranger.status, stranger.headers["location"]) == (303, f"{ROOT}/sign-in?back=%2Fops%2Ftenure%2Fqueues")
    signed = ask("POST", f"{ROOT}/sign-in", {"user": "olga", "password": PASSWORD, "back": f"{ROOT}/queues"})
    assert (signed.status, signed.headers["location"]) == (303, f"{ROOT}/queues")
    assert f"Path={ROOT};" in signed.headers["set-cookie"]
    form = ask("GET", f"{ROOT}/act/queue.pause?queue=emails&back={ROOT}/queues").text
    assert f'action="{ROOT}/act/queue.pause"' in form
    acted = ask("POST", f"{ROOT}/act/queue.pause", {"queue": "emails", "why": "migration", "back": "/queues"})
    assert (acted.status, acted.headers["location"]) == (303, f"{ROOT}/queues")
    assert "emails" in app.guards.paused("emails")
    assert "migration" in ask("GET", f"{ROOT}/queues").text
    out = ask("POST", f"{ROOT}/sign-out", {})
    assert (out.status, out.headers["location"]) == (303, f"{ROOT}/sign-in")
    assert ask("GET", f"{ROOT}/queues").status == 303


def test_the_hook_sees_the_request_of_the_host(app, mount):
    seen = []

    def access(request):
        seen.append(request)
        return Access(user="ada") if request.headers.get("origin") else None

    ask = mount(app, access=access)
    assert ask("GET", f"{ROOT}/queues").status == 200
    (request,) = seen
    assert (request.method, request.url.path) == ("GET", f"{ROOT}/queues")
    assert ("wsgi_environ" in request.scope) == mount.__name__.endswith(("wsgi", "flask"))


def test_the_api_answers_below_the_path(app, mount):
    ask = mount(app, access=lambda request: Access(user="ada"))
    answer = ask("GET", f"{ROOT}/api/queues")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert ask("GET", f"{ROOT}/api/nothing").status == 404


def test_a_hook_in_wsgi_knows_the_context_of_the_request(app):
    host = flask.Flask("host")
    host.secret_key = "for tests"
    dashboard = web.wsgi(app, lambda request: Access(user=flask.request.headers["X-User"]))

    @host.route(f"{ROOT}/", defaults={"path": ""})
    @host.route(f"{ROOT}/<path:path>", methods=["GET", "POST"])
    def tenure(path):
        environ = {**flask.request.environ, "SCRIPT_NAME": ROOT, "PATH_INFO": f"/{path}"}
        return flask.Response.from_app(dashboard, environ)

    page = host.test_client().get(f"{ROOT}/queues", headers={"X-User": "flora"})
    assert (page.status_code, "flora" in page.text) == (200, True)


def test_a_large_form_in_wsgi_is_refused(app):
    ask = in_flask(app, access=lambda request: Access(user="ada", role="admin"))
    assert ask("POST", f"{ROOT}/act/queue.pause", {"queue": "x" * 1_100_000}).status == 413


def test_a_head_request_in_wsgi_has_no_body(app):
    ask = in_flask(app, access=lambda request: Access(user="ada", role="admin"))
    answer = ask("HEAD", f"{ROOT}/queues")
    assert (answer.status, answer.text) == (200, "")


def test_a_closed_dashboard_leaves_no_thread_of_its_own(app):
    before = set(threading.enumerate())
    dashboard = web.wsgi(app, lambda request: Access(user="ada"))
    assert wsgi_browser(dashboard)("GET", "/").status == 200
    dashboard.close()
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert {name for name in left if name.startswith("tenure-")} == set()


def test_nothing_is_opened_before_the_first_request(tmp_path):
    from tenure import Tenure

    app = Tenure(f"sqlite:///{tmp_path}/none.db", dashboard=USERS)
    web.asgi(app)
    web.wsgi(app)
    assert not (tmp_path / "none.db").exists()
