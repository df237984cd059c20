"""Azure Service Bus: a queue of the namespace for each queue, peek-lock as the lease, its own dead-letter queues."""
