-- What the last attempt of an ended job took, and what workers counted in each stretch of time.

ALTER TABLE tenure_history ADD COLUMN run TEXT;

-- Whole batches end at one moment: without the id in it, a page of them would have to be sorted.
DROP INDEX tenure_history_finished;
CREATE INDEX tenure_history_finished ON tenure_history (state, queue, finished, id);

CREATE TABLE tenure_tally (
    slot    BIGINT NOT NULL,       -- when the stretch began
    queue   TEXT   COLLATE "C" NOT NULL,
    handler TEXT   COLLATE "C" NOT NULL,
    worker  TEXT   COLLATE "C" NOT NULL,  -- who counted; empty once the counts of all were added up
    record  TEXT   NOT NULL,
    PRIMARY KEY (slot, queue, handler, worker)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX tenure_tally_worker ON tenure_tally (worker, slot);
