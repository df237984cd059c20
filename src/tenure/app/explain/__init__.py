"""`tenure explain`: collects facts about a job; a pure function then says why it does not run, or how it ended."""
