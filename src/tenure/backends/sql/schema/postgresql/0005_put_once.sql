-- A put sees the jobs that had ended when its statement began, but not a job that ends while the put waits for its row.
-- This function checks again, and removes the rows of jobs that have ended.

CREATE FUNCTION tenure_unput(put TEXT[]) RETURNS TEXT[] LANGUAGE plpgsql VOLATILE STRICT AS $$
DECLARE
    ended TEXT[];
BEGIN
    -- A transaction with a stricter isolation level sees what had ended when it began; only a unique index shows more.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        INSERT INTO tenure_history (id, queue, rank, handler, state, attempts, crashes, fence, enqueued, due, finished)
        SELECT id, '', 0, '', '', 0, 0, 0, 0, 0, 0 FROM unnest(put) AS i(id) ON CONFLICT DO NOTHING;
        INSERT INTO tenure_dead (id, queue, rank, handler, attempts, crashes, fence, enqueued, due, died, owner, reason,
                                 body)
        SELECT id, '', 0, '', 0, 0, 0, 0, 0, 0, '', '', '' FROM unnest(put) AS i(id) ON CONFLICT DO NOTHING;
        DELETE FROM tenure_history WHERE id = ANY(put) AND queue = '';
        DELETE FROM tenure_dead WHERE id = ANY(put) AND queue = '';
    END IF;
    ended := ARRAY(
        SELECT i.id FROM unnest(put) AS i(id)
        WHERE (SELECT h.id FROM tenure_history AS h WHERE h.id = i.id) IS NOT NULL
           OR (SELECT d.id FROM tenure_dead AS d WHERE d.id = i.id) IS NOT NULL
    );
    IF ended <> '{}' THEN
        DELETE FROM tenure_job WHERE id = ANY(ended);
    END IF;
    RETURN ended;
END
$$;
