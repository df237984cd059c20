"""The reference backend: everything is in the memory of this process and ends with it."""

from tenure.backends.memory.backend import MemoryBackend, open_url

__all__ = ["MemoryBackend", "open_url"]
