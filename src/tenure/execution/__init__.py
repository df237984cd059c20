"""One attempt: call a handler under a deadline and return its outcome.

Code in `parent/` runs in the worker's process, code in `child/` in the child processes that it starts.
The other modules are used on both sides.
"""
