"""`tenure doctor`: collects facts about the live system; pure checks then compare them with the settings."""
