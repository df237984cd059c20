-- Jobs that an application enqueued in its own transaction, until the relay has put them to their backend.
-- Times are UTC microseconds. AUTOINCREMENT: a number is never used again, because a slow relay may still delete it.

CREATE TABLE IF NOT EXISTS tenure_outbox (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT    NOT NULL,            -- of the job
    backend  TEXT    NOT NULL,            -- a name from the setting backends; empty: the backend of the app
    queue    TEXT    NOT NULL,
    handler  TEXT    NOT NULL,
    name     TEXT,
    priority INTEGER NOT NULL,
    due      INTEGER NOT NULL,            -- 0: at once
    only_one TEXT,                        -- the option unique of the job
    tags     TEXT,
    body     BLOB    NOT NULL,            -- the sealed message
    created  INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,            -- from when on a relay may claim the row
    owner    TEXT,                        -- the claim that holds the row until ready_at
    tries    INTEGER NOT NULL DEFAULT 0,  -- how often the backend refused the job
    error    TEXT                         -- why it did so last
);
CREATE INDEX IF NOT EXISTS tenure_outbox_order ON tenure_outbox (backend, ready_at, number);
