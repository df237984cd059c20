-- What became of jobs that live on a broker which keeps no history, for an app whose store this is.

CREATE TABLE tenure_record (
    id     TEXT    PRIMARY KEY,
    queue  TEXT    NOT NULL,
    state  TEXT    NOT NULL,
    moment INTEGER NOT NULL,       -- when it ended, or is to run again
    record TEXT    NOT NULL
);
CREATE INDEX tenure_record_moment ON tenure_record (state, queue, moment, id);
