"""Files on this machine's disk that a crash leaves readable."""

from .journal import Journal, JournalError
from .naming import file_name
from .whole import NotWritten, write_whole

__all__ = ["Journal", "JournalError", "NotWritten", "file_name", "write_whole"]
