-- Time and resources of the last attempt of an ended job, and what workers counted in each time slot.

ALTER TABLE tenure_history ADD COLUMN run TEXT;

CREATE TABLE tenure_tally (
    slot    INTEGER NOT NULL,      -- the start of the time slot
    queue   TEXT    NOT NULL,
    handler TEXT    NOT NULL,
    worker  TEXT    NOT NULL,      -- the worker that counted; empty after the counts of all workers were added up
    record  TEXT    NOT NULL,
    PRIMARY KEY (slot, queue, handler, worker)
) WITHOUT ROWID;
CREATE INDEX tenure_tally_worker ON tenure_tally (worker, slot);
