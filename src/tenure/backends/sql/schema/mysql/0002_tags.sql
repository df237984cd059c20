-- The jobs of each tag; only jobs with tags have rows here. tenure_job.tags lists the tags of a job, with commas.
CREATE TABLE IF NOT EXISTS tenure_tag (
    tag      VARCHAR(64)  NOT NULL,
    enqueued BIGINT       NOT NULL,
    `key`    BIGINT       NOT NULL,
    PRIMARY KEY (tag, enqueued, `key`),
    KEY tenure_tag_key (`key`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The same for tenure_record.
CREATE TABLE IF NOT EXISTS tenure_record_tag (
    tag      VARCHAR(64)  NOT NULL,
    enqueued BIGINT       NOT NULL,
    id       VARCHAR(191) NOT NULL,
    PRIMARY KEY (tag, enqueued, id),
    KEY tenure_record_tag_id (id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
