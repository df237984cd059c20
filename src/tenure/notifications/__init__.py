"""Notifications: people and programs are told how jobs ended, beside the work and never in its way."""
