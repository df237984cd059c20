-- The ticks of schedules and what became of them, and how far each schedule has come.

CREATE TABLE IF NOT EXISTS tenure_tick (
    id       VARCHAR(100) NOT NULL PRIMARY KEY,  -- of the job: made of the schedule and the tick
    schedule VARCHAR(200) NOT NULL,
    tick     BIGINT       NOT NULL,
    due      BIGINT       NOT NULL,
    state    VARCHAR(20)  NOT NULL,
    why      TEXT,
    entered  BIGINT       NOT NULL,
    noted    BIGINT       NOT NULL,
    batch    BIGINT       NOT NULL,              -- of whoever entered it
    KEY tenure_tick_schedule (schedule, tick),
    KEY tenure_tick_state (state, noted)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_schedule (
    name   VARCHAR(200) NOT NULL PRIMARY KEY,    -- the empty one stands for all
    last   BIGINT       NOT NULL,
    paused BIGINT       NOT NULL                 -- since when, or 0
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
