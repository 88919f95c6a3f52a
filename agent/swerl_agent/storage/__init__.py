"""Files on this machine's disk that a crash leaves readable."""

from .journal import Journal, JournalError
from .naming import file_name
from .thread import to_disk
from .whole import NotWritten, write_whole

__all__ = ["Journal", "JournalError", "NotWritten", "file_name", "to_disk", "write_whole"]
