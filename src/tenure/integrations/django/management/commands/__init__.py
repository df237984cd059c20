"""A file for each command of manage.py."""
