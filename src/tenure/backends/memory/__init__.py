"""The reference backend: everything in this process, gone when it ends."""

from tenure.backends.memory.backend import MemoryBackend, open_url

__all__ = ["MemoryBackend", "open_url"]
