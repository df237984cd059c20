"""Statements on SQLite cost the same with any backlog, with and without statistics."""

import re
import sqlite3
from collections import defaultdict

import pytest

from tenure.backends.messages import Ack
from tenure.backends.sql import backend as verbs
from tenure.backends.sql import batches, control, dead_letters, guards, jobs
from tenure.backends.sql.sqlite import claims, dialect, settlements
from tenure.backends.sql.sqlite.compound import CompoundStatement
from tenure.backends.sql.sqlite.database import translated
from tenure.backends.url import open_backend
from tenure.clock import SystemClock

# For people and for the janitor: they may look at every row of a state, or sort a page.
COLD = {
    "COUNTS",
    "COUNTS_LIVE",
    "DEAD_KEYS",
    "NEXT_QUEUE",
    "TABLE_EXISTS",
    "INDEX_NAMES",
    "COMPOUNDS",
    "BEGIN",
    "DEAD_COLUMNS",  # the beginning of several statements
    "FIRST_READY",  # test_history_query_cost.py explains it
    "ON_REQUEST",  # a text, not a statement
    "SUSPECTS_PREFIX",
}
MODULES = (batches, jobs, dead_letters, control, verbs, guards, claims, settlements, dialect, dialect)
STATEMENTS = {name: found for module in MODULES for name, found in vars(module).items()}
HOT = [
    pytest.param(statement, id=name)
    for name, found in sorted(STATEMENTS.items())
    if re.fullmatch("[A-Z][A-Z_]+", name) and name not in COLD and isinstance(found, str | CompoundStatement)
    for statement in (found.statements if isinstance(found, CompoundStatement) else [found])
]
HARMLESS = ("VIRTUAL TABLE", "CONSTANT ROW", "SUBQUERY", "subquery", "SCAN new")  # `new` is one row


@pytest.fixture(scope="module")
def populated(message, tmp_path_factory):
    """A connection to a database with thousands of rows in every table, to look at."""
    path = tmp_path_factory.mktemp("populated") / "jobs.db"
    backend = open_backend(f"sqlite:///{path}?synchronous=normal", SystemClock())
    for first in range(0, 12_000, 3000):
        batch = range(first, first + 3000)
        backend.put([message(number, delay=60 * (first == 0), priority=number % 10) for number in batch])
    leases = backend.lease(["mail"], limit=6000, seconds=60)
    backend.ack([Ack(lease=lease) for lease in leases[:3000]])
    connection = sqlite3.connect(path)
    yield connection
    connection.close()
    backend.close()


@pytest.mark.parametrize("statement", HOT)
def test_no_hot_statement_scans_a_table_or_sorts(statement, populated):
    statement = re.sub(r"RAISE\(.*?\)", "1", translated(statement))  # which is for triggers alone
    places = statement.count("?")
    values = ("[]",) * places if places else defaultdict(lambda: "[]")
    plan = [row[3] for row in populated.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    subqueries = {f"SCAN {step.split()[1]}" for step in plan if step.startswith("CO-ROUTINE")}  # have own steps
    scans = [step for step in plan if step.startswith("SCAN") and not any(word in step for word in HARMLESS)]
    scans = [step for step in scans if step not in subqueries]
    assert scans == [], plan
    assert [step for step in plan if "TEMP B-TREE" in step and "ORDER BY" in step] == [], plan


def test_the_plans_are_made_without_statistics(populated):
    assert populated.execute("SELECT name FROM sqlite_master WHERE name LIKE 'sqlite_stat%'").fetchall() == []


class Instructions:
    """Counts what SQLite's virtual machine does on every connection opened from now on, in steps of a hundred."""

    def __init__(self, monkeypatch):
        self.hundreds = 0
        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda *args, **kwargs: self._watch(connect(*args, **kwargs)))

    def _watch(self, connection):
        connection.set_progress_handler(self._count, 100)
        return connection

    def _count(self):
        self.hundreds += 1
        return 0

    def during(self, work):
        before = self.hundreds
        work()
        return self.hundreds - before


def test_a_claim_costs_the_same_with_a_thousand_and_with_fifty_thousand_waiting(
    monkeypatch, backend_with_instructions, message
):
    backend, instructions = backend_with_instructions

    def claim_and_ack():
        for _ in range(5):
            leases = backend.lease(["mail"], limit=100, seconds=60)
            assert len(leases) == 100
            backend.ack([Ack(lease=lease) for lease in leases])

    backend.put([message(number) for number in range(1500)])
    few = instructions.during(claim_and_ack)
    for first in range(10_000, 60_000, 20_000):
        backend.put([message(number, priority=number % 10) for number in range(first, first + 20_000)])
    many = instructions.during(claim_and_ack)
    assert many == pytest.approx(few, rel=0.1)


@pytest.fixture
def backend_with_instructions(monkeypatch, tmp_path, clock):
    instructions = Instructions(monkeypatch)
    backend = open_backend(f"sqlite:///{tmp_path}/jobs.db?synchronous=normal", clock)
    yield backend, instructions
    backend.close()
