"""One module per command; `cli/main.py` imports a module only when its command runs."""
