"""Notifications: report to people and programs how jobs ended, without slowing the worker down."""
