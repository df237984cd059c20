-- Records of jobs on a broker without a history, for an app that uses this database as its store.

CREATE TABLE IF NOT EXISTS tenure_record (
    id     VARCHAR(191) NOT NULL PRIMARY KEY,
    queue  VARCHAR(100) NOT NULL,
    state  VARCHAR(20)  NOT NULL,
    moment BIGINT       NOT NULL,  -- when the job ended, or will run again
    record LONGTEXT     NOT NULL,
    KEY tenure_record_moment (state, queue, moment, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
