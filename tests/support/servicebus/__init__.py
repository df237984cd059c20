"""An emulator of Azure Service Bus: AMQP 1.0 over TCP, in memory.

The real SDK talks to it with a connection string that ends in `UseDevelopmentEmulator=true`. It is our reading of the
SDK and of the public documentation: no sessions, topics, transactions or message expiry, and nothing survives it.
"""

from tests.support.servicebus.emulator import Emulator
from tests.support.servicebus.faults import Faults

__all__ = ["Emulator", "Faults"]
