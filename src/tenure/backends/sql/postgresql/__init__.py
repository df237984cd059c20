"""PostgreSQL: a verb is one statement and one round trip, by the server's clock."""
