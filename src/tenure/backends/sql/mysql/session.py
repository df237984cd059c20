"""Session: packets of statements on one connection, and the transactions around them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from tenure.backends.sql.dialect import Row
from tenure.backends.sql.mysql import statements as sql
from tenure.backends.sql.mysql.server import Connection

_IF_NEW = "ON CONFLICT DO NOTHING"
# An equality has MariaDB read an index from where it begins to hold; what it takes for a range it enters where told.
_RANGE = r"BETWEEN :\1 AND concat(:\1, '')"


class Session:
    """`now` is what the time is, in SQL."""

    def __init__(self, connection: Connection, now: Callable[[], str]) -> None:
        self._cursor = connection.cursor()
        self._now = now
        self.in_transaction = False

    def send(self, *statements: str) -> list[list[Row]]:
        """Several statements in one packet; the rows of each."""
        self._cursor.execute(";".join(statements))
        self.in_transaction = (self.in_transaction or statements[0] == sql.BEGIN) and statements[-1] != sql.COMMIT
        answers = [list(self._cursor.fetchall())]
        while self._cursor.nextset():
            answers.append(list(self._cursor.fetchall()))
        return answers

    def fill(self, template: str, *values: Any, **texts: object) -> str:
        """A statement: `values` are escaped into %s, `texts` are SQL already."""
        filled = template.format(now=self._now(), **texts) if "{" in template else template
        return self._cursor.mogrify(filled, values) if values else filled

    def rows(self, template: str, row: str, rows: Iterable[Sequence[Any]]) -> str:
        """A statement with many rows of values, all of one shape."""
        shape = row.format(now=self._now()) if "{" in row else row
        listed = list(rows)
        return template.replace("{rows}", self.escaped([shape] * len(listed), chain.from_iterable(listed)))

    def escaped(self, shapes: Sequence[str], values: Iterable[Any]) -> str:
        """Rows with their values in place of each %s: escaped together, which costs half of doing it one by one."""
        return self._cursor.mogrify(",".join(shapes), tuple(values))

    def quote(self, value: str) -> str:
        return self._cursor.mogrify("%s", (value,))

    def quoted(self, values: Iterable[str]) -> str:
        listed = list(values)
        return self.escaped(["%s"] * len(listed), listed)

    def neutral(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        """The rows of a statement in neutral words."""
        self._cursor.execute(translated(statement), _bound(parameters) or None)
        return list(self._cursor.fetchall())


def numbers(values: Iterable[int]) -> str:
    return ",".join(map(str, values))


@lru_cache
def translated(statement: str) -> str:
    """A neutral statement in MySQL's words, of which `key` and `rank` are two."""
    if statement.rstrip().endswith(_IF_NEW):
        statement = statement.replace("INSERT", "INSERT IGNORE", 1).replace(_IF_NEW, "")
    ranged = re.sub(r"= \(:(\w+)\)", _RANGE, statement)
    quoted = re.sub(r"(?<![:`\w])(key|rank)\b(?!`)", r"`\1`", ranged)
    return re.sub(r"(?<!:):([a-z]\w*)", r"%(\1)s", quoted)


def _bound(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """An empty list is written as one that matches nothing."""
    return {name: value if value != [] else [None] for name, value in parameters.items()}
