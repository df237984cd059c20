-- A job is one row in tenure_job, written once, and one narrow row that says where the job is: in tenure_ready,
-- tenure_delayed, tenure_parked or tenure_lease, and at its end in tenure_outcome or tenure_dead. A row of tenure_batch
-- stands for many of tenure_lease.
-- Times are UTC microseconds. rank is the negative priority, so that every order is ascending.

CREATE TABLE tenure_job (
    key      INTEGER PRIMARY KEY,  -- the order of enqueue; a replay gives a new key
    id       TEXT    NOT NULL UNIQUE,
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    handler  TEXT    NOT NULL,
    name     TEXT,
    enqueued INTEGER NOT NULL,
    due      INTEGER NOT NULL,     -- changes if a user reschedules the job
    body     BLOB,                 -- NULL when the payload is no longer kept
    only_one TEXT,                 -- no other unfinished job has this value
    tags     TEXT,                 -- this and the next two are not used yet
    turn     INTEGER,
    flow     INTEGER
);
CREATE UNIQUE INDEX tenure_job_only_one ON tenure_job (only_one) WHERE only_one IS NOT NULL;

-- vanished counts the workers in a row that vanished while they held the job. -1 marks a suspect: a lease with it was
-- taken alone, and a waiting row with it is parked under its queue's own key.
CREATE TABLE tenure_ready (
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    key      INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    vanished INTEGER NOT NULL,
    PRIMARY KEY (queue, rank, key)
) WITHOUT ROWID;

CREATE TABLE tenure_delayed (
    key      INTEGER PRIMARY KEY,
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    vanished INTEGER NOT NULL,
    due      INTEGER NOT NULL
);
CREATE INDEX tenure_delayed_due ON tenure_delayed (queue, due);

CREATE TABLE tenure_parked (
    key      INTEGER PRIMARY KEY,
    guard    TEXT    NOT NULL,
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    vanished INTEGER NOT NULL
);
CREATE INDEX tenure_parked_order ON tenure_parked (guard, rank, key);

CREATE TABLE tenure_lease (
    key      INTEGER PRIMARY KEY,
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    vanished INTEGER NOT NULL,
    owner    TEXT    NOT NULL,
    expires  INTEGER NOT NULL,
    asked    INTEGER NOT NULL,  -- whether a user has cancelled the job
    done     REAL,
    total    REAL
);
CREATE INDEX tenure_lease_expiry ON tenure_lease (queue, expires);

CREATE TABLE tenure_outcome (
    key      INTEGER PRIMARY KEY,
    queue    TEXT    NOT NULL,
    state    TEXT    NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    size     INTEGER NOT NULL,  -- of the message, in bytes; 0 when a user erased it
    owner    TEXT,              -- NULL when the job was cancelled while it waited
    seconds  REAL,
    reason   TEXT,
    output   TEXT,
    run      TEXT               -- time and resources of the last attempt
);
CREATE INDEX tenure_outcome_finished ON tenure_outcome (state, queue, finished, key, size);

CREATE TABLE tenure_dead (
    key      INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL,
    queue    TEXT    NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    died     INTEGER NOT NULL,
    owner    TEXT    NOT NULL,
    reason   TEXT    NOT NULL
);
CREATE INDEX tenure_dead_died ON tenure_dead (died, id);
CREATE INDEX tenure_dead_queue ON tenure_dead (queue, died, id);

-- The leases that one claim granted on fresh jobs, as one row: their fence is 1 and their counters are 0.
CREATE TABLE tenure_batch (
    key      INTEGER PRIMARY KEY,  -- the smallest of the keys, and last is the largest
    last     INTEGER NOT NULL,
    queue    TEXT    NOT NULL,
    owner    TEXT    NOT NULL,
    expires  INTEGER NOT NULL,
    keys     TEXT    NOT NULL      -- a JSON array
);
CREATE INDEX tenure_batch_expiry ON tenure_batch (queue, expires);

-- The jobs of a batch that have not ended.
CREATE VIEW tenure_member AS
SELECT j.key, b.key AS batch, b.queue, j.rank, b.owner, b.expires, b.last
FROM tenure_batch AS b
CROSS JOIN json_each(iif(json_valid(b.keys), b.keys, '[]')) AS m
CROSS JOIN tenure_job AS j ON j.key = m.value
WHERE NOT EXISTS (SELECT 1 FROM tenure_outcome AS o WHERE o.key = m.value);

CREATE TABLE tenure_failure (
    id     TEXT    NOT NULL,
    fence  INTEGER NOT NULL,
    record TEXT    NOT NULL,
    PRIMARY KEY (id, fence)
) WITHOUT ROWID;

CREATE TABLE tenure_mark (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL,
    place INTEGER NOT NULL
) WITHOUT ROWID;

-- The states of guards by key.
CREATE TABLE tenure_guard (
    key     TEXT    PRIMARY KEY,
    state   TEXT,              -- NULL when jobs wait and no state is stored
    expires INTEGER NOT NULL,
    wake_at INTEGER NOT NULL,  -- when a waiting job should try again, if nothing changes before
    waiting INTEGER NOT NULL   -- whether jobs may be parked under this key
) WITHOUT ROWID;
CREATE INDEX tenure_guard_expiry ON tenure_guard (expires);
CREATE INDEX tenure_guard_waiting ON tenure_guard (wake_at) WHERE waiting = 1;

-- The ticks of schedules with their states, and the last tick of each schedule.
CREATE TABLE tenure_tick (
    id       TEXT    PRIMARY KEY,  -- the id of the job, made from the schedule and the tick
    schedule TEXT    NOT NULL,
    tick     INTEGER NOT NULL,
    due      INTEGER NOT NULL,
    state    TEXT    NOT NULL,
    why      TEXT,
    entered  INTEGER NOT NULL,
    noted    INTEGER NOT NULL,
    batch    INTEGER NOT NULL      -- identifies the transaction that entered the tick
) WITHOUT ROWID;
CREATE INDEX tenure_tick_schedule ON tenure_tick (schedule, tick);
CREATE INDEX tenure_tick_state ON tenure_tick (state, noted);

CREATE TABLE tenure_schedule (
    name   TEXT    PRIMARY KEY,  -- the empty name stands for all schedules
    last   INTEGER NOT NULL,
    paused INTEGER NOT NULL      -- the time of the pause, or 0
) WITHOUT ROWID;

CREATE TABLE tenure_worker (
    id      TEXT    PRIMARY KEY,
    expires INTEGER NOT NULL,
    record  TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX tenure_worker_expiry ON tenure_worker (expires);

-- What workers counted in each time slot.
CREATE TABLE tenure_tally (
    slot    INTEGER NOT NULL,  -- the start of the time slot
    queue   TEXT    NOT NULL,
    handler TEXT    NOT NULL,
    worker  TEXT    NOT NULL,  -- empty after the counts of all workers were added up
    record  TEXT    NOT NULL,
    PRIMARY KEY (slot, queue, handler, worker)
) WITHOUT ROWID;
CREATE INDEX tenure_tally_worker ON tenure_tally (worker, slot);

-- Records of jobs on a broker without a history, for an app that uses this database as its store.
CREATE TABLE tenure_record (
    id     TEXT    PRIMARY KEY,
    queue  TEXT    NOT NULL,
    state  TEXT    NOT NULL,
    moment INTEGER NOT NULL,  -- when the job ended, or will run again
    record TEXT    NOT NULL
);
CREATE INDEX tenure_record_moment ON tenure_record (state, queue, moment, id);
