"""SQLite: the embedded backend, for one host and any number of processes."""
