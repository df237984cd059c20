"""SqlSchema: the tables, made by numbered .sql files; each file is applied with its version in one transaction.

The tables of the jobs and the table of an outbox have versions of their own, because they may be in two databases.
"""

import re
from importlib import resources
from typing import NamedTuple

from tenure.backends.sql.dialect import Dialect, Rows
from tenure.errors import SchemaError

DIALECTS = ("sqlite", "postgresql", "mysql")
_OLD_TABLE = "tenure_history"  # every schema before version 1 had it


class Tables(NamedTuple):
    """Tables that are migrated together: the folder of their migrations, and the table that has their version."""

    folder: str
    version_table: str

    @property
    def create(self) -> str:
        return f"CREATE TABLE IF NOT EXISTS {self.version_table} (version INTEGER NOT NULL)"

    @property
    def forget(self) -> str:
        return f"DELETE FROM {self.version_table}"

    def remember(self, version: int) -> str:
        return f"INSERT INTO {self.version_table} VALUES ({version})"


JOBS = Tables("schema", "tenure_schema")
OUTBOX = Tables("schema/outbox", "tenure_outbox_schema")


class SqlSchema:
    def __init__(self, dialect: Dialect, tables: Tables = JOBS) -> None:
        self._dialect = dialect
        self._tables = tables
        self.steps_taken: list[str] = []

    def version(self) -> tuple[int, int]:
        return stored(self._dialect, self._tables), newest(self._dialect.name, self._tables)

    def migrate(self) -> list[str]:
        taken = migrate(self._dialect, self._tables)
        self.steps_taken += taken
        return taken

    def missing_indexes(self) -> list[str]:
        existing = {name for (name,) in self._dialect.read(self._dialect.index_names, {})}
        return sorted(indexes(self._dialect.name, self._tables) - existing)


def steps(dialect: str, tables: Tables = JOBS) -> list[tuple[int, str, str]]:
    """Version, name and text of every migration of a dialect, in order."""
    folder = resources.files("tenure.backends.sql") / tables.folder / dialect
    names = sorted(entry.name for entry in folder.iterdir() if re.fullmatch(r"\d{4}_\w+\.sql", entry.name))
    return [(int(name[:4]), name, (folder / name).read_text("utf-8")) for name in names]


def script(dialect: str, tables: Tables = JOBS) -> str:
    """All migrations as one script, for users who apply them by hand to an empty database."""
    version, _, _ = steps(dialect, tables)[-1]
    texts = [f"-- {name}\n{text.strip()}\n" for _, name, text in steps(dialect, tables)]
    return "\n".join([*texts, f"{tables.create};\n{tables.forget};\n{tables.remember(version)};\n"])


def newest(dialect: str, tables: Tables = JOBS) -> int:
    return steps(dialect, tables)[-1][0]


def indexes(dialect: str, tables: Tables = JOBS) -> set[str]:
    """The names of all indexes that exist after the migrations, without primary keys."""
    found: set[str] = set()
    for _, _, text in steps(dialect, tables):
        for dropped, name in re.findall(r"(DROP )?\b(?:INDEX|KEY) (?:IF NOT EXISTS )?(tenure_\w+)", text):
            (found.discard if dropped else found.add)(name)
    return found


def stored(dialect: Dialect, tables: Tables = JOBS) -> int:
    """The version in the database; 0 when it has no schema of Tenure."""
    if not dialect.read(dialect.table_exists, {"name": tables.version_table}):
        return 0
    return _version(dialect.read, tables)


def migrate(dialect: Dialect, tables: Tables = JOBS) -> list[str]:
    """Apply the missing migrations; safe to run in many processes at once."""
    check(dialect, tables)
    if stored(dialect, tables) == newest(dialect.name, tables):
        return []
    with dialect.migration() as rows:
        return apply_missing(rows, dialect.name, tables)


def apply_missing(rows: Rows, dialect: str, tables: Tables) -> list[str]:
    """Apply the missing migrations with statements that the caller commits; return their names."""
    taken = []
    rows(tables.create, {})
    found = _version(rows, tables)
    for version, name, text in steps(dialect, tables):
        if version > found:
            for statement in statements(text):
                rows(statement, {})
            rows(tables.forget, {})
            rows(tables.remember(version), {})
            taken.append(name)
    return taken


def check(dialect: Dialect, tables: Tables = JOBS) -> None:
    """Refuse a schema that this release cannot use: that of a newer release, or one from before version 1."""
    version = stored(dialect, tables)
    if version and tables is JOBS and dialect.read(dialect.table_exists, {"name": _OLD_TABLE}):
        raise SchemaError(
            f"the database {dialect.location!r} has the tables of a development version of Tenure, which this release "
            "cannot use: let the workers of that version finish its jobs, then delete its tables (their names begin "
            "with tenure_), or use a new database"
        )
    if version > newest(dialect.name, tables):
        raise SchemaError(
            f"the database {dialect.location!r} has schema version {version} in {tables.version_table}, but this "
            f"release of Tenure knows only {newest(dialect.name, tables)}; upgrade Tenure"
        )


def _version(rows: Rows, tables: Tables) -> int:
    found = rows(f"SELECT version FROM {tables.version_table}", {})
    return int(found[0][0]) if found else 0


def statements(text: str) -> list[str]:
    """The statements of a migration; the files have semicolons only at the end of a statement and between two `$$`."""
    without_comments = re.sub(r"--[^\n]*", "", text)
    found = re.findall(r"(?:\$\$.*?\$\$|[^;])+", without_comments, re.DOTALL)
    return [statement.strip() for statement in found if statement.strip()]
