-- What became of jobs that live on a broker which keeps no history, for an app whose store this is.

CREATE TABLE IF NOT EXISTS tenure_record (
    id     VARCHAR(191) NOT NULL PRIMARY KEY,
    queue  VARCHAR(100) NOT NULL,
    state  VARCHAR(20)  NOT NULL,
    moment BIGINT       NOT NULL,  -- when it ended, or is to run again
    record LONGTEXT     NOT NULL,
    KEY tenure_record_moment (state, queue, moment, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
