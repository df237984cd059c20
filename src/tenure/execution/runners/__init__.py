"""Where attempts run: one module a place."""
