"""One attempt: call a handler under a deadline and say how it went."""
