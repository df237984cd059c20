-- What users did.
CREATE TABLE tenure_audit (
    id     TEXT   COLLATE "C" PRIMARY KEY,
    at     BIGINT NOT NULL,
    record TEXT   NOT NULL
);
CREATE INDEX tenure_audit_at ON tenure_audit (at, id);
