"""The command line: thin, and built on the same verbs as the library."""
