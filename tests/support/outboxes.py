"""Databases of applications with an outbox, for tests."""

from contextlib import closing

from tenure.app.outbox import create_table
from tests.integration.backends.test_caller_transactions import raw


def outbox_url(request, kind, tmp_path):
    """A database with an empty outbox; on a server, one database serves all tests of a module."""
    if kind == "sqlite":
        return make_outbox(f"sqlite:///{tmp_path}/app.db")
    url, empty = request.getfixturevalue(f"{kind}_place")
    empty()
    return make_outbox(url)


def make_outbox(url):
    """Create the table of the outbox; return the URL."""
    with raw(url) as connection:
        create_table(connection)
        connection.commit()
    return url


def outbox_rows(url, columns="id", statement="SELECT {} FROM tenure_outbox ORDER BY number"):
    with raw(url) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(statement.format(columns))
        return [tuple(row) for row in cursor.fetchall()]


def run_statement(url, statement):
    with raw(url) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(statement)
        connection.commit()


def enqueue_in_outbox(app, url, jobs, backend=None):
    """Store jobs in one transaction; return their handles."""
    with raw(url) as connection:
        found = app.outbox(connection).enqueue_many(jobs, backend)
        connection.commit()
    return found
