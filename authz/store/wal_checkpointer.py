"""Copies the write-ahead log back into the database: off the writer's path, and whole at the end."""

import contextlib
import logging
import sqlite3
import threading
from pathlib import Path

from authz.store.sqlite_connection import connect

_UNITS_PER_CHECKPOINT = 1000
_log = logging.getLogger("authz.store")


class WalCheckpointer:
    """PASSIVE checkpoints: neither the writer nor a reader ever waits for one."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(f"{path.absolute().as_uri()}?mode=rw", 1000)
        self._units = 0
        self._is_closing = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="authz-wal-checkpointer", daemon=True)
        self._thread.start()

    def count(self, units: int) -> None:
        """Tell how many units were committed; every thousand or so starts a checkpoint."""
        self._units += units
        if self._units >= _UNITS_PER_CHECKPOINT:
            self._units = 0
            self._wake.set()

    def close(self) -> None:
        """Stop, after the checkpoint that may be running."""
        self._is_closing = True
        self._wake.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._is_closing:
                return
            try:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except sqlite3.Error:
                # Nothing depends on it: the records are durable in the log file. It is tried again.
                _log.warning("a WAL checkpoint failed", exc_info=True)


def empty_wal(path: Path) -> None:
    """Copy the whole write-ahead log into the database and cut it to nothing, for a clean stop.

    Without it a copy of the database file alone would be a copy of nothing. Does not raise: what is left
    in the write-ahead log is as durable there.
    """
    try:
        with contextlib.closing(connect(f"{path.absolute().as_uri()}?mode=rw", 1000)) as connection:
            (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error:
        _log.warning("the write-ahead log could not be emptied", exc_info=True)
        return
    if is_busy:
        _log.warning("the write-ahead log was not emptied, because someone else reads the database")
