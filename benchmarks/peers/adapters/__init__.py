"""Adapters: one peer a file, each read only inside its own environment; agent.py says which functions they have."""
