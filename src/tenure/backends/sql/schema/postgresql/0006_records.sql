-- Records of jobs on a broker without a history, for an app that uses this database as its store.

CREATE TABLE tenure_record (
    id     TEXT   COLLATE "C" PRIMARY KEY,
    queue  TEXT   COLLATE "C" NOT NULL,
    state  TEXT   COLLATE "C" NOT NULL,
    moment BIGINT NOT NULL,        -- when the job ended, or will run again
    record TEXT   NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX tenure_record_moment ON tenure_record (state, queue, moment, id);
