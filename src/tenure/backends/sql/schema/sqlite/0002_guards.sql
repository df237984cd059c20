-- What guards remember of shared keys, and the jobs that wait for one.

CREATE TABLE tenure_guard (
    key     TEXT    PRIMARY KEY,
    state   TEXT,                  -- none when jobs wait and nothing else is known
    expires INTEGER NOT NULL,
    wake_at INTEGER NOT NULL,      -- when a waiter should try again, if nothing changes before
    waiting INTEGER NOT NULL       -- whether jobs may be parked under this key
) WITHOUT ROWID;
CREATE INDEX tenure_guard_expiry ON tenure_guard (expires);
CREATE INDEX tenure_guard_waiting ON tenure_guard (wake_at) WHERE waiting = 1;

CREATE TABLE tenure_parked (
    key      INTEGER PRIMARY KEY,
    guard    TEXT    NOT NULL,
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    suspect  INTEGER NOT NULL
);
CREATE INDEX tenure_parked_order ON tenure_parked (guard, rank, key);

ALTER TABLE tenure_job ADD COLUMN only_one TEXT;  -- while this job lives, no other with the same is stored
CREATE UNIQUE INDEX tenure_job_only_one ON tenure_job (only_one) WHERE only_one IS NOT NULL;
