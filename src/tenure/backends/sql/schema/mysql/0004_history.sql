-- What workers counted in each stretch of time.

CREATE TABLE IF NOT EXISTS tenure_tally (
    slot    BIGINT       NOT NULL,  -- when the stretch began
    queue   VARCHAR(100) NOT NULL,
    handler VARCHAR(200) NOT NULL,
    worker  VARCHAR(100) NOT NULL,  -- who counted; empty once the counts of all were added up
    record  LONGTEXT     NOT NULL,
    PRIMARY KEY (slot, queue, handler, worker),
    KEY tenure_tally_worker (worker, slot)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
