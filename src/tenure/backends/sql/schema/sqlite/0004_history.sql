-- What the last attempt of an ended job took, and what workers counted in each stretch of time.

ALTER TABLE tenure_history ADD COLUMN run TEXT;

CREATE TABLE tenure_tally (
    slot    INTEGER NOT NULL,      -- when the stretch began
    queue   TEXT    NOT NULL,
    handler TEXT    NOT NULL,
    worker  TEXT    NOT NULL,      -- who counted; empty once the counts of all were added up
    record  TEXT    NOT NULL,
    PRIMARY KEY (slot, queue, handler, worker)
) WITHOUT ROWID;
CREATE INDEX tenure_tally_worker ON tenure_tally (worker, slot);
