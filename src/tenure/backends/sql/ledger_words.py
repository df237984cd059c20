"""What the ledger of schedules says, in words that every dialect translates; see `statements` for the notation."""

_COLUMNS = "id, schedule, tick, due, state, why, entered, noted"
_TICKS = f"SELECT {_COLUMNS} FROM tenure_tick"


def enter(count: int) -> str:
    """The statement that enters so many ticks at once."""
    names = ("id", "schedule", "tick", "due", "state", "why")
    rows = (f"({', '.join(f':{name}{number}' for name in names)}, :now, :now, :batch)" for number in range(count))
    return f"INSERT INTO tenure_tick ({_COLUMNS}, batch) VALUES {', '.join(rows)} ON CONFLICT DO NOTHING"


def introduce(count: int) -> str:
    """The statement that makes so many schedules known."""
    rows = ", ".join(f"(:name{number}, 0, 0)" for number in range(count))
    return f"INSERT INTO tenure_schedule (name, last, paused) VALUES {rows} ON CONFLICT DO NOTHING"


NEW = "SELECT id FROM tenure_tick WHERE id IN :ids AND batch = :batch"
ADVANCE = "UPDATE tenure_schedule SET last = :tick WHERE name IN :names AND last < :tick"
OF_NOTE = "SELECT id FROM tenure_tick WHERE id IN :ids AND state IN :states ORDER BY id FOR UPDATE"
NOTE = "UPDATE tenure_tick SET state = :state, why = :why, noted = :now WHERE id IN :ids"
KNOWN = f"{_TICKS} WHERE id IN :ids"
HISTORY = f"{_TICKS} WHERE schedule = :schedule AND state IN :states ORDER BY tick DESC LIMIT :limit"
UNENDED = f"{_TICKS} WHERE state IN :states AND noted < :before ORDER BY noted, id LIMIT :limit"
LAST = "SELECT name, last FROM tenure_schedule WHERE last > 0"
PAUSE = "UPDATE tenure_schedule SET paused = :now WHERE name = :name AND paused = 0"
RESUME = "UPDATE tenure_schedule SET paused = 0 WHERE name = :name"
PAUSED = "SELECT name, paused FROM tenure_schedule WHERE paused > 0"
OLD = "SELECT id FROM tenure_tick WHERE state IN :states AND noted < :before ORDER BY noted LIMIT :limit"
CROWDED = "SELECT schedule FROM tenure_tick GROUP BY schedule HAVING count(*) > :keep ORDER BY schedule LIMIT :limit"
# The newest `keep` are left out by going back that far, so that a crowd costs what is kept and not what there is.
BEYOND = "SELECT tick FROM tenure_tick WHERE schedule = :schedule ORDER BY tick DESC LIMIT 1 OFFSET :keep"
OLDEST = """
SELECT id FROM tenure_tick WHERE schedule = :schedule AND tick <= :tick AND state IN :states
ORDER BY tick LIMIT :limit
"""
DROP = "DELETE FROM tenure_tick WHERE id IN :ids"
