-- The jobs of each tag; only jobs with tags have rows here. tenure_job.tags lists the tags of a job, with commas.
CREATE TABLE tenure_tag (
    tag      TEXT    NOT NULL,
    enqueued INTEGER NOT NULL,
    key      INTEGER NOT NULL,
    PRIMARY KEY (tag, enqueued, key)
) WITHOUT ROWID;
CREATE INDEX tenure_tag_key ON tenure_tag (key);

-- The same for tenure_record.
CREATE TABLE tenure_record_tag (
    tag      TEXT    NOT NULL,
    enqueued INTEGER NOT NULL,
    id       TEXT    NOT NULL,
    PRIMARY KEY (tag, enqueued, id)
) WITHOUT ROWID;
CREATE INDEX tenure_record_tag_id ON tenure_record_tag (id);
