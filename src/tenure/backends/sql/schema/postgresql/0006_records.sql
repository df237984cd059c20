-- What became of jobs that live on a broker which keeps no history, for an app whose store this is.

CREATE TABLE tenure_record (
    id     TEXT   COLLATE "C" PRIMARY KEY,
    queue  TEXT   COLLATE "C" NOT NULL,
    state  TEXT   COLLATE "C" NOT NULL,
    moment BIGINT NOT NULL,        -- when it ended, or is to run again
    record TEXT   NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX tenure_record_moment ON tenure_record (state, queue, moment, id);
