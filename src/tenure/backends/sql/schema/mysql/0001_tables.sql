-- A job is one row in tenure_job, written once, and one narrow row that says where the job is: in tenure_ready,
-- tenure_delayed, tenure_parked or tenure_lease, and at its end in tenure_outcome or tenure_dead. A row of tenure_batch
-- stands for many of tenure_lease.
-- Times are UTC microseconds. rank is the negative priority, so that every order is ascending.
-- The server commits after each of these statements, so each can run again after an interrupted migration.

CREATE TABLE IF NOT EXISTS tenure_job (
    `key`    BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,  -- the order of enqueue; a replay gives a new key
    id       VARCHAR(191) NOT NULL,
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    handler  VARCHAR(200) NOT NULL,
    name     TEXT,
    enqueued BIGINT       NOT NULL,
    due      BIGINT       NOT NULL,                             -- changes if a user reschedules the job
    body     LONGBLOB,                                          -- NULL when the payload is no longer kept
    only_one VARCHAR(500),                                      -- no other unfinished job has this value
    tags     TEXT,                                              -- this and the next two are not used yet
    turn     BIGINT,
    flow     BIGINT,
    batch    BIGINT       NOT NULL DEFAULT 0,                   -- distinguishes the rows of one put from older rows
    UNIQUE KEY tenure_job_id (id),
    UNIQUE KEY tenure_job_only_one (only_one)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- vanished counts the workers in a row that vanished while they held the job. -1 marks a suspect: a lease with it was
-- taken alone, and a waiting row with it is parked under its queue's own key.
CREATE TABLE IF NOT EXISTS tenure_ready (
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    `key`    BIGINT       NOT NULL,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    vanished SMALLINT     NOT NULL,
    PRIMARY KEY (queue, `rank`, `key`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_delayed (
    `key`    BIGINT       NOT NULL PRIMARY KEY,
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    vanished SMALLINT     NOT NULL,
    due      BIGINT       NOT NULL,
    KEY tenure_delayed_due (queue, due)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_parked (
    `key`    BIGINT       NOT NULL PRIMARY KEY,
    guard    VARCHAR(500) NOT NULL,
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    vanished SMALLINT     NOT NULL,
    KEY tenure_parked_order (guard, `rank`, `key`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_lease (
    `key`    BIGINT       NOT NULL PRIMARY KEY,
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    vanished SMALLINT     NOT NULL,
    owner    VARCHAR(64)  NOT NULL,
    expires  BIGINT       NOT NULL,
    asked    SMALLINT     NOT NULL,  -- whether a user has cancelled the job
    done     DOUBLE,
    total    DOUBLE,
    KEY tenure_lease_expiry (queue, expires)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_outcome (
    `key`    BIGINT       NOT NULL PRIMARY KEY,
    queue    VARCHAR(100) NOT NULL,
    state    VARCHAR(16)  NOT NULL,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    finished BIGINT       NOT NULL,
    size     INT          NOT NULL,  -- of the message, in bytes; 0 when a user erased it
    owner    VARCHAR(64),            -- NULL when the job was cancelled while it waited
    seconds  DOUBLE,
    reason   TEXT,
    output   LONGTEXT,
    run      TEXT,                   -- time and resources of the last attempt
    KEY tenure_outcome_finished (state, queue, finished, `key`, size)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_dead (
    `key`    BIGINT       NOT NULL PRIMARY KEY,
    id       VARCHAR(191) NOT NULL,
    queue    VARCHAR(100) NOT NULL,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    died     BIGINT       NOT NULL,
    owner    VARCHAR(64)  NOT NULL,
    reason   TEXT         NOT NULL,
    KEY tenure_dead_died (died, id),
    KEY tenure_dead_queue (queue, died, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The leases that one claim granted on fresh jobs, as one row: their fence is 1 and their counters are 0.
CREATE TABLE IF NOT EXISTS tenure_batch (
    `key`    BIGINT       NOT NULL PRIMARY KEY,  -- the smallest of the keys, and last is the largest
    last     BIGINT       NOT NULL,
    queue    VARCHAR(100) NOT NULL,
    owner    VARCHAR(64)  NOT NULL,
    expires  BIGINT       NOT NULL,
    `keys`   JSON         NOT NULL,
    KEY tenure_batch_expiry (queue, expires)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The jobs of a batch that have not ended.
CREATE OR REPLACE VIEW tenure_member AS
SELECT j.`key`, b.`key` AS batch, b.queue, j.`rank`, b.owner, b.expires, b.last
FROM tenure_batch AS b
STRAIGHT_JOIN JSON_TABLE(b.`keys`, '$[*]' COLUMNS (`key` BIGINT PATH '$')) AS m
STRAIGHT_JOIN tenure_job AS j ON j.`key` = m.`key`
WHERE NOT EXISTS (SELECT 1 FROM tenure_outcome AS o WHERE o.`key` = m.`key`);

CREATE TABLE IF NOT EXISTS tenure_failure (
    id       VARCHAR(191) NOT NULL,
    fence    INT          NOT NULL,
    record   LONGTEXT     NOT NULL,
    PRIMARY KEY (id, fence)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_mark (
    name     VARCHAR(150) NOT NULL PRIMARY KEY,
    value    BIGINT       NOT NULL,
    place    BIGINT       NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The states of guards by key.
CREATE TABLE IF NOT EXISTS tenure_guard (
    `key`    VARCHAR(500) NOT NULL PRIMARY KEY,
    state    LONGTEXT,               -- NULL when jobs wait and no state is stored
    expires  BIGINT       NOT NULL,
    wake_at  BIGINT       NOT NULL,  -- when a waiting job should try again, if nothing changes before
    waiting  SMALLINT     NOT NULL,  -- whether jobs may be parked under this key
    KEY tenure_guard_expiry (expires),
    KEY tenure_guard_waiting (waiting, wake_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

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
    name     VARCHAR(200) NOT NULL PRIMARY KEY,  -- the empty name stands for all schedules
    last     BIGINT       NOT NULL,
    paused   BIGINT       NOT NULL               -- the time of the pause, or 0
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_worker (
    id       VARCHAR(191) NOT NULL PRIMARY KEY,
    expires  BIGINT       NOT NULL,
    record   LONGTEXT     NOT NULL,
    KEY tenure_worker_expiry (expires)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What workers counted in each time slot.
CREATE TABLE IF NOT EXISTS tenure_tally (
    slot     BIGINT       NOT NULL,  -- the start of the time slot
    queue    VARCHAR(100) NOT NULL,
    handler  VARCHAR(200) NOT NULL,
    worker   VARCHAR(100) NOT NULL,  -- empty after the counts of all workers were added up
    record   LONGTEXT     NOT NULL,
    PRIMARY KEY (slot, queue, handler, worker),
    KEY tenure_tally_worker (worker, slot)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Records of jobs on a broker without a history, for an app that uses this database as its store.
CREATE TABLE IF NOT EXISTS tenure_record (
    id       VARCHAR(191) NOT NULL PRIMARY KEY,
    queue    VARCHAR(100) NOT NULL,
    state    VARCHAR(20)  NOT NULL,
    moment   BIGINT       NOT NULL,  -- when the job ended, or will run again
    record   LONGTEXT     NOT NULL,
    KEY tenure_record_moment (state, queue, moment, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
