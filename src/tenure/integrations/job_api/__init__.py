"""The answers about single jobs that the routers of all web frameworks share; imports no framework."""
