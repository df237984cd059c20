"""The outbox: enqueue to any backend in the transaction of an application's own database; a relay moves the jobs."""

from tenure.app.outbox.outbox import Outbox, create_table, sql

__all__ = ["Outbox", "create_table", "sql"]
