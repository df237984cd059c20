-- The ticks of schedules with their states, and the last tick of each schedule.

CREATE TABLE IF NOT EXISTS tenure_tick (
    id       VARCHAR(100) NOT NULL PRIMARY KEY,  -- the id of the job, made from the schedule and the tick
    schedule VARCHAR(200) NOT NULL,
    tick     BIGINT       NOT NULL,
    due      BIGINT       NOT NULL,
    state    VARCHAR(20)  NOT NULL,
    why      TEXT,
    entered  BIGINT       NOT NULL,
    noted    BIGINT       NOT NULL,
    batch    BIGINT       NOT NULL,              -- identifies the transaction that entered the tick
    KEY tenure_tick_schedule (schedule, tick),
    KEY tenure_tick_state (state, noted)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_schedule (
    name   VARCHAR(200) NOT NULL PRIMARY KEY,    -- the empty name stands for all schedules
    last   BIGINT       NOT NULL,
    paused BIGINT       NOT NULL                 -- the time of the pause, or 0
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
