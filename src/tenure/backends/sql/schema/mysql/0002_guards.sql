-- The states of guards by key, and the jobs that wait for a guard.

CREATE TABLE IF NOT EXISTS tenure_guard (
    `key`   VARCHAR(500) NOT NULL PRIMARY KEY,
    state   LONGTEXT,                -- NULL when jobs wait and no state is stored
    expires BIGINT       NOT NULL,
    wake_at BIGINT       NOT NULL,   -- when a waiting job should try again, if nothing changes before
    waiting SMALLINT     NOT NULL,   -- whether jobs may be parked under this key
    KEY tenure_guard_expiry (expires),
    KEY tenure_guard_waiting (waiting, wake_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenure_parked (
    `key`    BIGINT       NOT NULL PRIMARY KEY,
    guard    VARCHAR(500) NOT NULL,
    queue    VARCHAR(100) NOT NULL,
    `rank`   SMALLINT     NOT NULL,
    attempts INT          NOT NULL,
    crashes  INT          NOT NULL,
    fence    INT          NOT NULL,
    suspect  SMALLINT     NOT NULL,
    KEY tenure_parked_order (guard, `rank`, `key`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
