-- The ticks of schedules with their states, and the last tick of each schedule.

CREATE TABLE tenure_tick (
    id       TEXT   COLLATE "C" PRIMARY KEY,  -- the id of the job, made from the schedule and the tick
    schedule TEXT   COLLATE "C" NOT NULL,
    tick     BIGINT NOT NULL,
    due      BIGINT NOT NULL,
    state    TEXT   COLLATE "C" NOT NULL,
    why      TEXT,
    entered  BIGINT NOT NULL,
    noted    BIGINT NOT NULL,
    batch    BIGINT NOT NULL                  -- identifies the transaction that entered the tick
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX tenure_tick_schedule ON tenure_tick (schedule, tick);
CREATE INDEX tenure_tick_state ON tenure_tick (state, noted);

CREATE TABLE tenure_schedule (
    name   TEXT   COLLATE "C" PRIMARY KEY,    -- the empty name stands for all schedules
    last   BIGINT NOT NULL,
    paused BIGINT NOT NULL                    -- the time of the pause, or 0
) WITH (fillfactor = 70);
