-- A put sees what had ended when its statement began; a job that ends while the put waits for its row is seen only
-- afterwards. This function looks once more, and takes what ended out again.

CREATE FUNCTION tenure_unput(put TEXT[]) RETURNS TEXT[] LANGUAGE plpgsql VOLATILE STRICT AS $$
DECLARE
    ended TEXT[];
BEGIN
    -- The whole of a stricter transaction sees what had ended when it began: only an index tells it of more.
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
