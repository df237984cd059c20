-- The body of a job is written once; the counters that change are in narrow rows that move between tables.
-- Times are UTC microseconds. rank is the negative priority, so that every order is ascending.
-- The server commits after each of these statements, so each can run again after an interrupted migration.

CREATE TABLE IF NOT EXISTS tenure_job (
    `key`    BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,  -- the order of enqueue
    id       VARCHAR(191) NOT NULL,
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    handler  VARCHAR(200) NOT NULL,
    name     TEXT,
    enqueued BIGINT       NOT NULL,
    due      BIGINT       NOT NULL,
    body     LONGBLOB     NOT NULL,
    only_one VARCHAR(500),                     -- no other job with this value is stored before this one ends
    batch    BIGINT       NOT NULL DEFAULT 0,  -- distinguishes the rows of one put from older rows
    UNIQUE KEY tenure_job_id (id),
    UNIQUE KEY tenure_job_only_one (only_one)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_ready (
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    `key`    BIGINT       NOT NULL,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    suspect  SMALLINT     NOT NULL,
    PRIMARY KEY (queue, `rank`, `key`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_delayed (
    `key`    BIGINT       NOT NULL PRIMARY KEY,
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    suspect  SMALLINT     NOT NULL,
    due      BIGINT       NOT NULL,
    KEY tenure_delayed_due (queue, due)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_lease (
    `key`    BIGINT       NOT NULL PRIMARY KEY,
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    suspect  SMALLINT     NOT NULL,
    owner    VARCHAR(64)  NOT NULL,
    expires  BIGINT       NOT NULL,
    asked    SMALLINT     NOT NULL,  -- whether a user has cancelled the job
    done     DOUBLE,
    total    DOUBLE,
    KEY tenure_lease_expiry (queue, expires)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_history (
    id       VARCHAR(191) NOT NULL PRIMARY KEY,
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    handler  VARCHAR(200) NOT NULL,
    name     TEXT,
    state    VARCHAR(16)  NOT NULL,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    enqueued BIGINT       NOT NULL,
    due      BIGINT       NOT NULL,
    finished BIGINT       NOT NULL,
    owner    VARCHAR(64),  -- NULL when the job was cancelled while it waited
    seconds  DOUBLE,
    reason   TEXT,
    output   LONGTEXT,
    run      TEXT,         -- time and resources of the last attempt
    KEY tenure_history_finished (state, queue, finished)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_dead (
    id       VARCHAR(191) NOT NULL PRIMARY KEY,
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    handler  VARCHAR(200) NOT NULL,
    name     TEXT,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    enqueued BIGINT       NOT NULL,
    due      BIGINT       NOT NULL,
    died     BIGINT       NOT NULL,
    owner    VARCHAR(64)  NOT NULL,
    reason   TEXT         NOT NULL,
    body     LONGBLOB     NOT NULL,
    KEY tenure_dead_died (died, id),
    KEY tenure_dead_queue (queue, died, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_failure (
    id     VARCHAR(191) NOT NULL,
    fence  INT          NOT NULL,
    record LONGTEXT     NOT NULL,
    PRIMARY KEY (id, fence)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_worker (
    id      VARCHAR(191) NOT NULL PRIMARY KEY,
    expires BIGINT       NOT NULL,
    record  LONGTEXT     NOT NULL,
    KEY tenure_worker_expiry (expires)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
