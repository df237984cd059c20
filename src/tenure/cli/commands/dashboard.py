"""`tenure dashboard`: serve the web pages of an app, and make passwords and tokens for them."""

import getpass
import ipaddress
import logging
import sys
import webbrowser

import click

from tenure.app import Tenure
from tenure.cli.app_loader import app_as_deployed
from tenure.cli.errors import CommandError
from tenure.errors import BackendUnavailable
from tenure.web import check_installed

logger = logging.getLogger(__name__)

_MIN_PASSWORD = 8  # characters


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; else 8642, or a free one if that is taken.")
@click.option("--root-path", metavar="PATH", default="", help="The path below which a proxy shows it, such as /tenure.")
@click.option(
    "--forwarded-allow-ips", metavar="LIST", help="The addresses of proxies whose X-Forwarded-* headers are believed."
)
@click.option("--open/--no-open", "opens", help="Open the page in a browser, if this is a terminal.")
@click.option("--hash-password", "hashes", is_flag=True, help="Ask for a password, print its hash, and stop.")
@click.option("--new-token", metavar="NAME", help="Print a new token for a program and its settings, and stop.")
def dashboard(
    host: str,
    port: int | None,
    root_path: str,
    forwarded_allow_ips: str | None,
    opens: bool,
    hashes: bool,
    new_token: str | None,
) -> None:
    """Show and change everything in a browser, until stopped."""
    check_installed()
    if hashes:
        _print_hash()
        return
    if new_token is not None:
        _print_token(new_token)
        return
    with app_as_deployed(create=True) as (app, has_handlers):
        _open_backend(app)
        _serve(app, has_handlers, host, port, _checked_root(root_path), forwarded_allow_ips, opens=opens)


def _serve(
    app: Tenure,
    has_handlers: bool,
    host: str,
    port: int | None,
    root: str,
    proxies: str | None,
    *,
    opens: bool,
) -> None:
    from tenure.web.mount import AsgiDashboard
    from tenure.web.server import DEFAULT_PORT, DashboardServer
    from tenure.web.users import users_of, with_owner

    users, is_local = users_of(app), _is_loopback(host)
    if not is_local and not users.accounts and not users.tokens:
        raise CommandError(
            f"{host!r} can be reached from other hosts, and the setting 'dashboard' has neither users nor tokens; add "
            "one, or listen on 127.0.0.1 and use a tunnel: see the page 'Secure the dashboard'"
        )
    if is_local:
        users = with_owner(users, _user_name())
    try:
        server = DashboardServer(host, port)
    except OSError as error:
        raise CommandError(
            f"the dashboard cannot listen on {host}:{DEFAULT_PORT if port is None else port}: "
            f"{error.strerror or error}; choose another --port"
        ) from error
    web = AsgiDashboard(app, users=users, has_handlers=has_handlers, cookie=f"tenure_session_{server.port}")
    link = None if users.links is None else f"{server.url}{root}/link/{users.links.new()}"
    _announce(server.url + root, link, is_default=port is not None or server.port == DEFAULT_PORT)
    if opens and sys.stdout.isatty():
        _open_browser(link or f"{server.url}{root}/")
    try:
        server.run(web, root=root, trusted_proxies=proxies)
    finally:
        server.close()
        web.dashboard.stop_running()
        web.close()
    click.echo("The dashboard has stopped.")


def _announce(url: str, link: str | None, *, is_default: bool) -> None:
    if not is_default:
        click.echo("The port 8642 is in use, so another one was chosen.")
    click.echo(f"The dashboard is at {url}/")
    if link is not None:
        click.echo("Sign in with this link. It works once, within 5 minutes:")
        click.echo(f"  {link}")
    click.echo("Press Ctrl+C to stop.")


def _open_backend(app: Tenure) -> None:
    """Create a database that is missing; a server that is down is no reason not to start: the pages say so."""
    try:
        app.open_backend()
    except BackendUnavailable as error:
        if app.settings.url.startswith("sqlite:"):
            raise
        logger.warning("the backend cannot be reached; the pages show it when it answers: %s", error)


def _print_hash() -> None:
    from tenure.web.passwords import MAX_PASSWORD, hash_password

    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not _MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise CommandError(f"a password must have {_MIN_PASSWORD} to {MAX_PASSWORD} characters")
    click.echo(hash_password(password))
    click.echo('Put it into tenure.toml, as [dashboard.users.NAME] password = "…", with a role.', err=True)


def _print_token(name: str) -> None:
    from tenure.web.passwords import hash_token, new_token

    token = new_token()
    click.echo(token)
    click.echo(
        f"This is shown once. Put these lines into tenure.toml, with the role that the program needs:\n\n"
        f'[dashboard.tokens."{_toml_text(name)}"]\nsha256 = "{hash_token(token)}"\nrole = "viewer"',
        err=True,
    )


def _toml_text(name: str) -> str:
    if not name.isprintable() or not 0 < len(name) <= 80 or set(name) & {'"', "\\"}:
        raise CommandError("the name of a token needs 1 to 80 printable characters, without quotes and backslashes")
    return name


def _checked_root(path: str) -> str:
    root = path.rstrip("/")
    if root and (not root.startswith("/") or "//" in root or set(root) & set("?#% \\") or not root.isascii()):
        raise CommandError(f"--root-path must be a path such as /tenure, not {path!r}")
    return root


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without an entry for its user
        return "owner"


def _open_browser(address: str) -> None:
    try:
        webbrowser.open(address)
    except webbrowser.Error as error:
        logger.warning("no browser can be opened: %s", error)
