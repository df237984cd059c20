-- Records of jobs on a broker without a history, for an app that uses this database as its store.

CREATE TABLE tenure_record (
    id     TEXT    PRIMARY KEY,
    queue  TEXT    NOT NULL,
    state  TEXT    NOT NULL,
    moment INTEGER NOT NULL,       -- when the job ended, or will run again
    record TEXT    NOT NULL
);
CREATE INDEX tenure_record_moment ON tenure_record (state, queue, moment, id);
