-- What users did.
CREATE TABLE tenure_audit (
    id     TEXT    PRIMARY KEY,
    at     INTEGER NOT NULL,
    record TEXT    NOT NULL
);
CREATE INDEX tenure_audit_at ON tenure_audit (at, id);
