"""The log of the driver or of a rank in the job's folder, where it outlives the Pod.

Guarantees: lines from before the folder is known are in it too; a slow or full volume delays neither training nor, for
more than CLOSE_SECONDS, the end of the process.
"""

from __future__ import annotations

import atexit
import copy
import logging
import queue
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path

from swerl_kube.logs import add_ids

CLOSE_SECONDS = 5.0  # for the last lines to be written

logger = logging.getLogger(__name__)


class ProcessLog:
    """Keeps what is logged from now on, in order, and writes it once `write_to` has named the file."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._handler = _RecordHandler(self._lines)
        self._handler.addFilter(add_ids)
        logging.getLogger().addHandler(self._handler)

    def write_to(self, file: Path, formatter: logging.Formatter) -> None:
        """Append to `file`, in a thread, until the process ends. Logs a warning if the file cannot be opened."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            sink = logging.FileHandler(file)
        except OSError as error:
            logging.getLogger().removeHandler(self._handler)  # nothing would empty its queue
            logger.warning("log lines of this process are in its Pod's log only: %s", error)
            return
        sink.setFormatter(formatter)
        listener = _Listener(self._lines, sink)
        listener.start()
        atexit.register(listener.stop)


class _RecordHandler(QueueHandler):
    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """The record with its message rendered and its error kept, which the formatter of the file needs."""
        prepared = copy.copy(record)
        prepared.msg, prepared.args = record.getMessage(), None
        return prepared


class _Listener(QueueListener):
    def stop(self) -> None:
        """Write what is left; a volume that hangs ends the wait, because the thread is a daemon."""
        self.enqueue_sentinel()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
