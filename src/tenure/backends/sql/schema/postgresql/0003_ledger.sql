-- The ticks of schedules and what became of them, and how far each schedule has come.

CREATE TABLE tenure_tick (
    id       TEXT   COLLATE "C" PRIMARY KEY,  -- of the job: made of the schedule and the tick
    schedule TEXT   COLLATE "C" NOT NULL,
    tick     BIGINT NOT NULL,
    due      BIGINT NOT NULL,
    state    TEXT   COLLATE "C" NOT NULL,
    why      TEXT,
    entered  BIGINT NOT NULL,
    noted    BIGINT NOT NULL,
    batch    BIGINT NOT NULL                  -- of whoever entered it
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX tenure_tick_schedule ON tenure_tick (schedule, tick);
CREATE INDEX tenure_tick_state ON tenure_tick (state, noted);

CREATE TABLE tenure_schedule (
    name   TEXT   COLLATE "C" PRIMARY KEY,    -- the empty one stands for all
    last   BIGINT NOT NULL,
    paused BIGINT NOT NULL                    -- since when, or 0
) WITH (fillfactor = 70);
