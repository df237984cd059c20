"""What people see and do: a query reads a model, a command changes something and leaves an audit record.

The web page, its JSON API and the command line are thin layers over `Dashboard.read` and `Dashboard.act`.
Who may see and do what is decided here, in `access.py`, and not in the layers above.
"""
