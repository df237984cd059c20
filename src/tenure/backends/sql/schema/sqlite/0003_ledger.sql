-- The ticks of schedules and what became of them, and how far each schedule has come.

CREATE TABLE tenure_tick (
    id       TEXT    PRIMARY KEY,  -- of the job: made of the schedule and the tick
    schedule TEXT    NOT NULL,
    tick     INTEGER NOT NULL,
    due      INTEGER NOT NULL,
    state    TEXT    NOT NULL,
    why      TEXT,
    entered  INTEGER NOT NULL,
    noted    INTEGER NOT NULL,
    batch    INTEGER NOT NULL      -- of whoever entered it
) WITHOUT ROWID;
CREATE INDEX tenure_tick_schedule ON tenure_tick (schedule, tick);
CREATE INDEX tenure_tick_state ON tenure_tick (state, noted);

CREATE TABLE tenure_schedule (
    name   TEXT    PRIMARY KEY,    -- the empty one stands for all
    last   INTEGER NOT NULL,
    paused INTEGER NOT NULL        -- since when, or 0
) WITHOUT ROWID;
