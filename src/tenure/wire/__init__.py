"""How a job travels: one flat JSON object, sealed with a signature over its very bytes."""
