-- The ticks of schedules with their states, and the last tick of each schedule.

CREATE TABLE tenure_tick (
    id       TEXT    PRIMARY KEY,  -- the id of the job, made from the schedule and the tick
    schedule TEXT    NOT NULL,
    tick     INTEGER NOT NULL,
    due      INTEGER NOT NULL,
    state    TEXT    NOT NULL,
    why      TEXT,
    entered  INTEGER NOT NULL,
    noted    INTEGER NOT NULL,
    batch    INTEGER NOT NULL      -- identifies the transaction that entered the tick
) WITHOUT ROWID;
CREATE INDEX tenure_tick_schedule ON tenure_tick (schedule, tick);
CREATE INDEX tenure_tick_state ON tenure_tick (state, noted);

CREATE TABLE tenure_schedule (
    name   TEXT    PRIMARY KEY,    -- the empty name stands for all schedules
    last   INTEGER NOT NULL,
    paused INTEGER NOT NULL        -- the time of the pause, or 0
) WITHOUT ROWID;
