-- The jobs of each tag; only jobs with tags have rows here. tenure_job.tags lists the tags of a job, with commas.
CREATE TABLE tenure_tag (
    tag      TEXT   COLLATE "C" NOT NULL,
    enqueued BIGINT NOT NULL,
    key      BIGINT NOT NULL,
    PRIMARY KEY (tag, enqueued, key)
);
CREATE INDEX tenure_tag_key ON tenure_tag (key);

-- The same for tenure_record.
CREATE TABLE tenure_record_tag (
    tag      TEXT   COLLATE "C" NOT NULL,
    enqueued BIGINT NOT NULL,
    id       TEXT   COLLATE "C" NOT NULL,
    PRIMARY KEY (tag, enqueued, id)
);
CREATE INDEX tenure_record_tag_id ON tenure_record_tag (id);
