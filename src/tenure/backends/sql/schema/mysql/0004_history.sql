-- What workers counted in each time slot.

CREATE TABLE IF NOT EXISTS tenure_tally (
    slot    BIGINT       NOT NULL,  -- the start of the time slot
    queue   VARCHAR(100) NOT NULL,
    handler VARCHAR(200) NOT NULL,
    worker  VARCHAR(100) NOT NULL,  -- the worker that counted; empty after the counts of all workers were added up
    record  LONGTEXT     NOT NULL,
    PRIMARY KEY (slot, queue, handler, worker),
    KEY tenure_tally_worker (worker, slot)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
