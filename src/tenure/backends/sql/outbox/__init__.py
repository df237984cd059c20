"""The outbox: jobs in a table of an application's database, on their way to any backend."""
