-- The body of a job is written once; the counters that change are in narrow rows that move between tables.
-- Times are UTC microseconds. rank is the negative priority, so that every order is ascending.

CREATE TABLE tenure_job (
    key      INTEGER PRIMARY KEY,  -- the order of enqueue: a time, so that no key is used twice
    id       TEXT    NOT NULL UNIQUE,
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    handler  TEXT    NOT NULL,
    name     TEXT,
    enqueued INTEGER NOT NULL,
    due      INTEGER NOT NULL,
    body     BLOB    NOT NULL
);

CREATE TABLE tenure_ready (
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    key      INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    suspect  INTEGER NOT NULL,
    PRIMARY KEY (queue, rank, key)
) WITHOUT ROWID;

CREATE TABLE tenure_delayed (
    key      INTEGER PRIMARY KEY,
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    suspect  INTEGER NOT NULL,
    due      INTEGER NOT NULL
);
CREATE INDEX tenure_delayed_due ON tenure_delayed (queue, due);

CREATE TABLE tenure_lease (
    key      INTEGER PRIMARY KEY,
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    suspect  INTEGER NOT NULL,
    owner    TEXT    NOT NULL,
    expires  INTEGER NOT NULL,
    asked    INTEGER NOT NULL,     -- whether a user has cancelled the job
    done     REAL,
    total    REAL
);
CREATE INDEX tenure_lease_expiry ON tenure_lease (queue, expires);

CREATE TABLE tenure_history (
    id       TEXT    PRIMARY KEY,
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    handler  TEXT    NOT NULL,
    name     TEXT,
    state    TEXT    NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    enqueued INTEGER NOT NULL,
    due      INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    owner    TEXT,                 -- NULL when the job was cancelled while it waited
    seconds  REAL,
    reason   TEXT,
    output   TEXT
) WITHOUT ROWID;
CREATE INDEX tenure_history_finished ON tenure_history (state, queue, finished);

CREATE TABLE tenure_dead (
    id       TEXT    PRIMARY KEY,
    queue    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    handler  TEXT    NOT NULL,
    name     TEXT,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    enqueued INTEGER NOT NULL,
    due      INTEGER NOT NULL,
    died     INTEGER NOT NULL,
    owner    TEXT    NOT NULL,
    reason   TEXT    NOT NULL,
    body     BLOB    NOT NULL
);
CREATE INDEX tenure_dead_died ON tenure_dead (died, id);
CREATE INDEX tenure_dead_queue ON tenure_dead (queue, died, id);

CREATE TABLE tenure_failure (
    id     TEXT    NOT NULL,
    fence  INTEGER NOT NULL,
    record TEXT    NOT NULL,
    PRIMARY KEY (id, fence)
) WITHOUT ROWID;

CREATE TABLE tenure_worker (
    id      TEXT    PRIMARY KEY,
    expires INTEGER NOT NULL,
    record  TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX tenure_worker_expiry ON tenure_worker (expires);
