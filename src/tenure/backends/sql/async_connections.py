"""What a caller's async connection is, and how statements run on it; no async driver is imported here.

A caller passes an AsyncSession or AsyncConnection of SQLAlchemy, an AsyncConnection of psycopg, or a connection of
asyncpg or aiosqlite. The transaction belongs to the caller: nothing here commits it or rolls it back.
"""

import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from tenure.backends.sql.dialect import Row
from tenure.errors import BackendError

T = TypeVar("T")
AsyncRows = Callable[[str, Mapping[str, Any]], Awaitable[list[Row]]]
Steps = Generator[tuple[str, Any], Any, T]
_ASYNC_MODULES = ("asyncpg", "aiosqlite", "aiomysql", "asyncmy")
_KINDS = {
    "asyncpg": "postgresql",
    "psycopg": "postgresql",
    "aiosqlite": "sqlite",
    "aiomysql": "mysql",
    "asyncmy": "mysql",
}


class AsyncConnection(NamedTuple):
    """`driver` is the module of the driver; `raw` is the driver's connection, or that of SQLAlchemy around it."""

    driver: str
    raw: Any
    is_sqlalchemy: bool


def is_async(connection: Any) -> bool:
    return _is_sqlalchemy(connection) or _driver(connection) is not None


async def async_connection(connection: Any, dialect: str, location: str) -> AsyncConnection:
    """The connection below what the caller passes; refuses one that cannot reach the jobs."""
    found, kind = await found_async_connection(connection)
    if found is None or kind != dialect:
        raise BackendError(
            f"{_name(connection)} cannot be awaited for a job on the {dialect} database {location!r}; aenqueue takes "
            "an AsyncSession or AsyncConnection of SQLAlchemy, an AsyncConnection of psycopg, or a connection of "
            "asyncpg or aiosqlite, to the database of the jobs; for another connection call enqueue"
        )
    return found


async def found_async_connection(connection: Any) -> tuple[AsyncConnection | None, str | None]:
    """The connection below what the caller passes and the kind of its database; None where it is unknown."""
    found = await _unwrapped(connection)
    return found, None if found is None else _KINDS.get(found.driver)


async def _unwrapped(connection: Any) -> AsyncConnection | None:
    if not _is_sqlalchemy(connection):
        driver = _driver(connection)
        return None if driver is None else AsyncConnection(driver, connection, is_sqlalchemy=False)
    if not hasattr(connection, "exec_driver_sql"):
        connection = await connection.connection()  # of a session
    if not connection.in_transaction():
        await connection.begin()
    return AsyncConnection(connection.dialect.driver.removesuffix("_async"), connection, is_sqlalchemy=True)


def _is_sqlalchemy(connection: Any) -> bool:
    return any(parent.__module__.startswith("sqlalchemy.ext.asyncio") for parent in type(connection).__mro__)


def _driver(connection: Any) -> str | None:
    for parent in type(connection).__mro__:
        module = parent.__module__.partition(".")[0]
        if module == "psycopg" and parent.__name__ == "AsyncConnection":
            return module
        if module in _ASYNC_MODULES:
            return module
    return None


def _name(connection: Any) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


# PostgreSQL: statements in the notation of psycopg.
def rows_on_async(connection: AsyncConnection) -> AsyncRows:
    """Runs statements with named parameters."""

    async def psycopg_rows(statement: str, values: Mapping[str, Any]) -> list[Row]:
        async with connection.raw.cursor(row_factory=lambda _: tuple) as cursor:
            await cursor.execute(statement, values)
            return list(await cursor.fetchall())

    async def asyncpg_rows(statement: str, values: Mapping[str, Any]) -> list[Row]:
        if not connection.raw.is_in_transaction():
            raise BackendError(
                "this connection commits every statement by itself; begin a transaction on it first: "
                "`async with connection.transaction(): ...`"
            )
        text, names = numbered(statement)
        return list(await connection.raw.fetch(text, *_texts(names, values)))

    async def sqlalchemy_rows(statement: str, values: Mapping[str, Any]) -> list[Row]:
        given: Any = dict(values)
        if connection.driver == "asyncpg":
            statement, names = numbered(statement)
            given = tuple(_texts(names, values))
        return list((await connection.raw.exec_driver_sql(statement, given)).fetchall())

    if connection.is_sqlalchemy:
        return sqlalchemy_rows
    return asyncpg_rows if connection.driver == "asyncpg" else psycopg_rows


@lru_cache
def numbered(statement: str) -> tuple[str, list[str]]:
    """A statement in the notation of asyncpg, and the names of its parameters in order; all of them are texts.

    asyncpg would encode each value for the type that the statement names, and expects lists for arrays. The arrays
    here are texts in PostgreSQL's notation.
    """
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    return re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}::text", statement), names


def _texts(names: list[str], values: Mapping[str, Any]) -> list[str | None]:
    return [None if values[name] is None else str(values[name]) for name in names]


# SQLite: the steps of a generator, which is sent the answer to each statement (see `steps.run_steps`).
async def aiosqlite_connection(connection: AsyncConnection) -> Any:
    return (await connection.raw.get_raw_connection()).driver_connection if connection.is_sqlalchemy else connection.raw


async def run_steps_async(raw: Any, steps: Steps[T]) -> T:
    """Run the steps on a connection of aiosqlite; return what the generator returns."""
    async with raw.cursor() as cursor:
        cursor.row_factory = None
        step = next(steps)
        while True:
            try:
                answer = await _answer(cursor, *step)
            except BaseException as error:
                step = steps.throw(error)
            else:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    found: T = end.value
                    return found


async def _answer(cursor: Any, statement: str, given: Any) -> Any:
    if isinstance(given, list):
        await cursor.executemany(statement, given)
        return cursor.rowcount
    await cursor.execute(statement, given)
    return await cursor.fetchall()
