-- What users did.
CREATE TABLE IF NOT EXISTS tenure_audit (
    id     VARCHAR(191) NOT NULL PRIMARY KEY,
    at     BIGINT       NOT NULL,
    record LONGTEXT     NOT NULL,
    KEY tenure_audit_at (at, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
