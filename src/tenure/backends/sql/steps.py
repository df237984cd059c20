"""Runs the steps of a generator, each a statement with its parameters, on a connection of sqlite3."""

from typing import Any, TypeVar

from tenure.backends.sql.async_connections import Steps

T = TypeVar("T")


def run_steps(cursor: Any, steps: Steps[T]) -> T:
    """Run the steps with a cursor or a connection of sqlite3; return what the generator returns."""
    step = next(steps)
    while True:
        try:
            statement, given = step
            if isinstance(given, list):
                answer: Any = cursor.executemany(statement, given).rowcount
            else:
                answer = cursor.execute(statement, given).fetchall()
        except BaseException as error:
            step = steps.throw(error)
        else:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                found: T = end.value
                return found
