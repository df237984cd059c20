"""Users: who may sign in or send a token, and with which access, as the settings say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_bytes

from tenure.app.dashboard.access import Access, Role
from tenure.app.tenure import Tenure
from tenure.errors import SettingsError
from tenure.web.one_time_links import OneTimeLinks
from tenure.web.passwords import check_hash

_HOUR = 3600.0


@dataclass(frozen=True)
class Account:
    """Someone who may have a session; without a password, only by a one-time link. Sessions are bound to `secret`."""

    access: Access
    secret: bytes
    password: str | None = None


@dataclass(frozen=True)
class Users:
    """All accounts by name, the access of tokens by their hash, and the links of this process, if it gives any."""

    accounts: Mapping[str, Account] = field(default_factory=dict)
    tokens: Mapping[str, Access] = field(default_factory=dict)
    session_seconds: float = 12 * _HOUR
    links: OneTimeLinks | None = None
    owner: str | None = None  # the name of the account that a link opens

    @property
    def have_passwords(self) -> bool:
        return any(account.password is not None for account in self.accounts.values())


def users_of(app: Tenure) -> Users:
    """The users and tokens of the settings; raises SettingsError for one that cannot be used."""
    settings = app.settings.dashboard
    accounts: dict[str, Account] = {}
    for name, user in settings.users.items():
        check_hash(name, user.password)
        access = _access(app, name, user.role, user.queues, user.actions)
        accounts[name] = Account(access, user.password.encode(), user.password)
    tokens = {
        token.sha256: _access(app, name, token.role, token.queues, token.actions)
        for name, token in settings.tokens.items()
    }
    return Users(accounts, tokens, settings.session * _HOUR)


def with_owner(users: Users, name: str) -> Users:
    """The users, and the owner of this process, who may do all and opens the dashboard with a one-time link."""
    while name in users.accounts:
        name = f"{name} (link)"
    owner = Account(Access(user=name, role="admin"), token_bytes(32))
    return Users({**users.accounts, name: owner}, users.tokens, users.session_seconds, OneTimeLinks(), name)


def _access(
    app: Tenure, name: str, role: Role, queues: tuple[str, ...] | None, actions: tuple[str, ...] | None
) -> Access:
    try:
        return Access(
            user=name,
            role=role,
            queues=None if queues is None else tuple(map(app.queues.resolve, queues)),
            actions=None if actions is None else frozenset(actions),
        )
    except ValueError as error:
        raise SettingsError(f"the setting 'dashboard' cannot be used: {error}") from error
