-- How many workers vanished in a row while they held the job takes the place of the mark of a suspect, which meant one.
-- -1 marks a suspect: a lease with it was taken alone, and a waiting row with it is parked under its queue's own key.

ALTER TABLE tenure_ready RENAME COLUMN suspect TO vanished;
ALTER TABLE tenure_delayed RENAME COLUMN suspect TO vanished;
ALTER TABLE tenure_lease RENAME COLUMN suspect TO vanished;
ALTER TABLE tenure_parked RENAME COLUMN suspect TO vanished;
