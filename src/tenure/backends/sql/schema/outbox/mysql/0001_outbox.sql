-- Jobs that an application enqueued in its own transaction, until the relay has put them to their backend.
-- Times are UTC microseconds.

CREATE TABLE IF NOT EXISTS tenure_outbox (
    number   BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id       VARCHAR(191) NOT NULL,            -- of the job
    backend  VARCHAR(191) NOT NULL,            -- a name from the setting backends; empty: the backend of the app
    queue    VARCHAR(100) NOT NULL,
    handler  VARCHAR(200) NOT NULL,
    name     TEXT,
    priority SMALLINT     NOT NULL,
    due      BIGINT       NOT NULL,            -- 0: at once
    only_one VARCHAR(500),                     -- the option unique of the job
    tags     TEXT,
    body     LONGBLOB     NOT NULL,            -- the sealed message
    created  BIGINT       NOT NULL,
    ready_at BIGINT       NOT NULL,            -- from when on a relay may claim the row
    owner    VARCHAR(40),                      -- the claim that holds the row until ready_at
    tries    INT          NOT NULL DEFAULT 0,  -- how often the backend refused the job
    error    TEXT,                             -- why it did so last
    KEY tenure_outbox_order (backend, ready_at, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
