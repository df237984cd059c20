"""The time in UTC microseconds by the clock of a server, as SQL; no driver is imported here."""

# The time inside a statement: the server's, or that of a test clock in the parameter `now`.
POSTGRESQL_NOW = "coalesce(%(now)s::bigint, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)"
MYSQL_NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
