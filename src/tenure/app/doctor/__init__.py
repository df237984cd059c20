"""The doctor: facts of the live system are gathered, then small pure checks compare them with the settings."""
