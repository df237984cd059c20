"""What a job is: values, handlers, retry policies and queues; no I/O."""
