"""What Flask and Quart share: settings in the configuration of the application, and a group of commands."""
