-- The states of guards by key, and the jobs that wait for a guard.

CREATE TABLE tenure_guard (
    key     TEXT    PRIMARY KEY,
    state   TEXT,                  -- NULL when jobs wait and no state is stored
    expires INTEGER NOT NULL,
    wake_at INTEGER NOT NULL,      -- when a waiting job should try again, if nothing changes before
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

ALTER TABLE tenure_job ADD COLUMN only_one TEXT;  -- no other job with this value is stored before this one ends
CREATE UNIQUE INDEX tenure_job_only_one ON tenure_job (only_one) WHERE only_one IS NOT NULL;
