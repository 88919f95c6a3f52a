"""Files on the local disk that stay readable after a crash."""

from .atomic import WriteFailed, write_atomic
from .file_names import file_name
from .journal import Journal, JournalError
from .thread import finish_in_thread

__all__ = ["Journal", "JournalError", "WriteFailed", "file_name", "finish_in_thread", "write_atomic"]
