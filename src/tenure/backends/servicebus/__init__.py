"""Azure Service Bus: a queue of the namespace per queue, peek-lock as the lease, its dead-letter queue for the dead."""
