"""User code in child processes: what parent and child say to each other, and how each side does its part."""
