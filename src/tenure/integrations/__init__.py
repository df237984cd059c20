"""Integrations: join Tenure to web frameworks, ORMs and monitoring services; each is imported only by its user."""
