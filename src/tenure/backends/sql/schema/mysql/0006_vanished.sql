-- How many workers vanished in a row while they held the job takes the place of the mark of a suspect, which meant one.
-- -1 marks a suspect: a lease with it was taken alone, and a waiting row with it is parked under its queue's own key.
-- Each column is renamed only if an interrupted migration has not done so.

SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'tenure_ready' AND column_name = 'suspect'),
    'ALTER TABLE tenure_ready RENAME COLUMN suspect TO vanished',
    'DO 0'
);
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'tenure_delayed' AND column_name = 'suspect'),
    'ALTER TABLE tenure_delayed RENAME COLUMN suspect TO vanished',
    'DO 0'
);
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'tenure_lease' AND column_name = 'suspect'),
    'ALTER TABLE tenure_lease RENAME COLUMN suspect TO vanished',
    'DO 0'
);
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'tenure_parked' AND column_name = 'suspect'),
    'ALTER TABLE tenure_parked RENAME COLUMN suspect TO vanished',
    'DO 0'
);
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
