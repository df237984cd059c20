"""What guards and parking say, in words that every dialect translates; see `statements` for the notation."""

GUARDS = """
SELECT key, state, expires, wake_at, waiting FROM tenure_guard WHERE key IN :keys ORDER BY key FOR UPDATE
"""
SEEN = "SELECT key, state FROM tenure_guard WHERE key IN :keys AND expires > :now AND state IS NOT NULL"
DROP_GUARDS = "DELETE FROM tenure_guard WHERE key IN :keys"
OLD_GUARDS = "SELECT key FROM tenure_guard WHERE expires <= :now AND waiting = 0 ORDER BY expires LIMIT :limit"
SWEEP = "DELETE FROM tenure_guard WHERE key IN :keys AND expires <= :now AND waiting = 0"
WAIT = "UPDATE tenure_guard SET waiting = 1 WHERE key IN :keys"
DUE = "SELECT key, wake_at FROM tenure_guard WHERE waiting = 1 AND wake_at <= :now ORDER BY wake_at LIMIT :limit"
WAITED_FOR = "SELECT key, wake_at FROM tenure_guard WHERE key IN :keys AND waiting = 1"

HELD = """
SELECT j.id, l.fence, l.key, l.asked FROM tenure_lease AS l JOIN tenure_job AS j ON j.key = l.key
WHERE l.key IN :keys AND l.owner = :owner ORDER BY l.key FOR UPDATE
"""
PARK = """
INSERT INTO tenure_parked (key, guard, queue, rank, attempts, crashes, fence, suspect)
SELECT key, :guard, queue, rank, attempts, crashes, fence, suspect FROM tenure_lease WHERE key IN :keys
"""
UNPARK = """
INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, suspect)
SELECT queue, rank, key, attempts, crashes, fence, suspect FROM tenure_lease WHERE key IN :keys
"""
DROP_LEASES = "DELETE FROM tenure_lease WHERE key IN :keys"
HEADS = "SELECT key, queue FROM tenure_parked WHERE guard = :guard ORDER BY rank, key LIMIT :limit FOR UPDATE"
WAKE = """
INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, suspect)
SELECT queue, rank, key, attempts, crashes, fence, suspect FROM tenure_parked WHERE key IN :keys
"""
DROP_PARKED = "DELETE FROM tenure_parked WHERE key IN :keys"
HOLDERS = "SELECT only_one, id FROM tenure_job WHERE only_one IN :uniques"
