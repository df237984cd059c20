"""MySQL and MariaDB: rows are locked first and moved after, few round trips a verb, by the server's clock."""
