-- Time and resources of the last attempt of an ended job, and what workers counted in each time slot.

ALTER TABLE tenure_history ADD COLUMN run TEXT;

-- Whole batches end at the same time: without the id in the index, the server would sort each page of them.
DROP INDEX tenure_history_finished;
CREATE INDEX tenure_history_finished ON tenure_history (state, queue, finished, id);

CREATE TABLE tenure_tally (
    slot    BIGINT NOT NULL,       -- the start of the time slot
    queue   TEXT   COLLATE "C" NOT NULL,
    handler TEXT   COLLATE "C" NOT NULL,
    worker  TEXT   COLLATE "C" NOT NULL,  -- the worker that counted; empty for the sum of all workers
    record  TEXT   NOT NULL,
    PRIMARY KEY (slot, queue, handler, worker)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX tenure_tally_worker ON tenure_tally (worker, slot);
