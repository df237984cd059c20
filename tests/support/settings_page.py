"""The tables of the settings reference, made from the code: `make reference` writes them into the page."""

import ast
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import msgspec

from tenure import permissions, recipients, settings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
BEGIN, END = "<!-- settings -->\n", "<!-- /settings -->\n"
HEAD = "| setting | type | default | environment | meaning |\n| --- | --- | --- | --- | --- |\n"

TABLES: dict[str, type] = {
    "": settings.Settings,
    "retention.": settings.Retention,
    "shell.": permissions.Shell,
    "event.": permissions.Event,
    "http.": permissions.Http,
    "mail.": recipients.Mail,
    "dashboard.": settings.DashboardSettings,
    "lanes.NAME.": settings.LaneSettings,
    "notifications.NAME.": recipients.Notification,
    "dashboard.users.NAME.": settings.DashboardUser,
    "dashboard.tokens.NAME.": settings.DashboardToken,
}
INTRODUCED = {
    "lanes.NAME.": "A [lane](../how-to/run-workers.md#lanes), here called NAME:\n\n",
    "notifications.NAME.": "A [notification](../how-to/notifications.md), here called NAME:\n\n",
    "dashboard.users.NAME.": "A [user of the dashboard](../how-to/secure-the-dashboard.md), here called NAME:\n\n",
    "dashboard.tokens.NAME.": "A [token of the dashboard](../how-to/secure-the-dashboard.md#tokens), here called "
    "NAME:\n\n",
}
SEE = {
    "url": "[PostgreSQL](../how-to/use-postgresql.md), [MySQL](../how-to/use-mysql.md), "
    "[Redis](../how-to/use-redis.md), [Beanstalkd](../how-to/use-beanstalkd.md), "
    "[Azure Service Bus](../how-to/use-service-bus.md)",
    "schedules": "[schedule jobs](../how-to/schedule-jobs.md)",
    "rates": "[limit rates](../how-to/rate-limits.md)",
    "on_dead": "[run a job for every dead letter](../how-to/dead-letters.md#run-a-job-for-every-dead-letter)",
    "sensitive": "[security](../explanation/security.md)",
    "command": "[run console commands](../how-to/run-commands.md)",
    "dashboard": "[secure the dashboard](../how-to/secure-the-dashboard.md)",
    "shell.arguments": "[declare the arguments](../how-to/run-programs.md#declare-the-arguments)",
}


def names() -> list[str]:
    """Every setting there is."""
    return [prefix + name for prefix, struct in TABLES.items() for name in struct.__struct_fields__]


def tables() -> str:
    """What stands between the marks of the page."""
    return "\n".join(INTRODUCED.get(prefix, "") + HEAD + _rows(prefix, struct) for prefix, struct in TABLES.items())


def updated(page: str) -> str:
    """The page with the tables as the code has them."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{tables()}{END}{after}"


def _rows(prefix: str, struct: type) -> str:
    meanings = meanings_of(struct)
    return "".join(_row(prefix, field, meanings[field.name]) for field in msgspec.structs.fields(struct))


def _row(prefix: str, field: msgspec.structs.FieldInfo, meaning: str) -> str:
    name = prefix + field.name
    variable = settings.PREFIX + name.upper().replace(".", "__")
    see = f" See {SEE[name]}." if name in SEE else ""
    cells = (f"`{name}`", f"`{_kind(field.type)}`", f"`{_default(field)}`", f"`{variable}`", meaning + see)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _kind(kind: Any) -> str:
    text = kind.__name__ if inspect.isclass(kind) and not hasattr(kind, "__args__") else str(kind)
    plain = re.sub(r"typing\.|tenure\.(\w+\.)+", "", text)
    return re.sub(r"Union\[(.*)\]", lambda found: re.sub(r", (?=[A-Z])", " | ", found[1]), plain)


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return f"{type(value).__name__}()" if isinstance(value, msgspec.Struct) else repr(value)


def meanings_of(struct: type) -> dict[str, str]:
    """The text below each field."""
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(found, ast.ClassDef)
    meanings: dict[str, str] = {}
    for field, text in zip(found.body, found.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            assert is_text, f"{struct.__name__}.{field.target.id} says nothing about itself: write a text below it"
            meanings[field.target.id] = " ".join(str(text.value.value).split())
    return meanings


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text("utf-8")), "utf-8")
