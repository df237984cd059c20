-- The states of guards by key, and the jobs that wait for a guard.

CREATE TABLE tenure_guard (
    key     TEXT     COLLATE "C" PRIMARY KEY,
    state   TEXT,               -- NULL when jobs wait and no state is stored
    expires BIGINT   NOT NULL,
    wake_at BIGINT   NOT NULL,  -- when a waiting job should try again, if nothing changes before
    waiting SMALLINT NOT NULL   -- whether jobs may be parked under this key
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX tenure_guard_expiry ON tenure_guard (expires);
CREATE INDEX tenure_guard_waiting ON tenure_guard (wake_at) WHERE waiting = 1;

CREATE TABLE tenure_parked (
    key      BIGINT   PRIMARY KEY,
    guard    TEXT     COLLATE "C" NOT NULL,
    queue    TEXT     COLLATE "C" NOT NULL,
    rank     SMALLINT NOT NULL,
    attempts INTEGER  NOT NULL,
    crashes  INTEGER  NOT NULL,
    fence    INTEGER  NOT NULL,
    suspect  SMALLINT NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX tenure_parked_order ON tenure_parked (guard, rank, key);

-- No other job with the same value is stored before this one ends.
ALTER TABLE tenure_job ADD COLUMN only_one TEXT COLLATE "C";
CREATE UNIQUE INDEX tenure_job_only_one ON tenure_job (only_one) WHERE only_one IS NOT NULL;
