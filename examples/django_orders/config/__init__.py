"""The settings and addresses of the site."""
