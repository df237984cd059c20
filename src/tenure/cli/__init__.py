"""The command line: thin commands that call the same functions as the library."""
