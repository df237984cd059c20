"""The wire format of a job: one flat JSON object with a signature over its bytes."""
