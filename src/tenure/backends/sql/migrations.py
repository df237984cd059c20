"""SqlSchema: the tables, made by numbered .sql files; each file is applied with its version in one transaction."""

import re
from importlib import resources

from tenure.backends.sql.dialect import Dialect, Rows
from tenure.errors import SchemaError

DIALECTS = ("sqlite", "postgresql", "mysql")
_CREATE = "CREATE TABLE IF NOT EXISTS tenure_schema (version INTEGER NOT NULL)"
_FORGET = "DELETE FROM tenure_schema"
_REMEMBER = "INSERT INTO tenure_schema VALUES"
_OLD_TABLE = "tenure_history"  # every schema before version 1 had it


class SqlSchema:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.steps_taken: list[str] = []

    def version(self) -> tuple[int, int]:
        return stored(self._dialect), newest(self._dialect.name)

    def migrate(self) -> list[str]:
        taken = migrate(self._dialect)
        self.steps_taken += taken
        return taken

    def missing_indexes(self) -> list[str]:
        existing = {name for (name,) in self._dialect.read(self._dialect.index_names, {})}
        return sorted(indexes(self._dialect.name) - existing)


def steps(dialect: str) -> list[tuple[int, str, str]]:
    """Version, name and text of every migration of a dialect, in order."""
    folder = resources.files("tenure.backends.sql") / "schema" / dialect
    names = sorted(entry.name for entry in folder.iterdir() if re.fullmatch(r"\d{4}_\w+\.sql", entry.name))
    return [(int(name[:4]), name, (folder / name).read_text("utf-8")) for name in names]


def script(dialect: str) -> str:
    """All migrations as one script, for users who apply them by hand to an empty database."""
    version, _, _ = steps(dialect)[-1]
    texts = [f"-- {name}\n{text.strip()}\n" for _, name, text in steps(dialect)]
    return "\n".join([*texts, f"{_CREATE};\n{_FORGET};\n{_REMEMBER} ({version});\n"])


def newest(dialect: str) -> int:
    return steps(dialect)[-1][0]


def indexes(dialect: str) -> set[str]:
    """The names of all indexes that exist after the migrations, without primary keys."""
    found: set[str] = set()
    for _, _, text in steps(dialect):
        for dropped, name in re.findall(r"(DROP )?\b(?:INDEX|KEY) (tenure_\w+)", text):
            (found.discard if dropped else found.add)(name)
    return found


def stored(dialect: Dialect) -> int:
    """The version in the database; 0 when it has no schema of Tenure."""
    return _version(dialect, dialect.read)


def migrate(dialect: Dialect) -> list[str]:
    """Apply the missing migrations; safe to run in many processes at once."""
    check(dialect)
    taken = []
    if stored(dialect) < newest(dialect.name):
        with dialect.migration() as rows:
            rows(_CREATE, {})
            for version, name, text in steps(dialect.name):
                if version > _version(dialect, rows):
                    for statement in statements(text):
                        rows(statement, {})
                    rows(_FORGET, {})
                    rows(f"{_REMEMBER} ({version})", {})
                    taken.append(name)
    return taken


def check(dialect: Dialect) -> None:
    """Refuse a schema that this release cannot use: that of a newer release, or one from before version 1."""
    version = stored(dialect)
    if version and dialect.read(dialect.table_exists, {"name": _OLD_TABLE}):
        raise SchemaError(
            f"the database {dialect.location!r} has the tables of a development version of Tenure, which this release "
            "cannot use: let the workers of that version finish its jobs, then delete its tables (their names begin "
            "with tenure_), or use a new database"
        )
    if version > newest(dialect.name):
        raise SchemaError(
            f"the database {dialect.location!r} has schema version {version}, but this release of Tenure "
            f"knows only {newest(dialect.name)}; upgrade Tenure"
        )


def _version(dialect: Dialect, rows: Rows) -> int:
    if not rows(dialect.table_exists, {"name": "tenure_schema"}):
        return 0
    found = rows("SELECT version FROM tenure_schema", {})
    return int(found[0][0]) if found else 0


def statements(text: str) -> list[str]:
    """The statements of a migration; the files have semicolons only at the end of a statement and between two `$$`."""
    without_comments = re.sub(r"--[^\n]*", "", text)
    found = re.findall(r"(?:\$\$.*?\$\$|[^;])+", without_comments, re.DOTALL)
    return [statement.strip() for statement in found if statement.strip()]
