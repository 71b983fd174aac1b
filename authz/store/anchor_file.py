"""The anchor file: a copy of the newest checkpoint beside the database, where no SQL statement reaches it.

Whoever edits rows can empty the table of checkpoints too, and the log would no longer know how far it
once went. The file is replaced as a whole after each checkpoint is durable, so it is never ahead of the
log that it belongs to.
"""

import json
import logging
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from authz.core.log_anchor import unverified_anchor
from authz.errors import LogCorrupt, StoreUnavailable
from authz.store.commit_engine import WrittenCheckpoint

_FILE_VERSION = 1
_MAX_BYTES = 16 * 1024 * 1024
_log = logging.getLogger("authz.log")


class AnchorFile:
    """`DATABASE.anchor.json`, private to this user.

    Where the database is a server's, each replica keeps one in its own data directory: whoever may change
    the database does not thereby reach it.
    """

    def __init__(self, database: Path) -> None:
        self.path = Path(f"{database}.anchor.json")

    def read(self) -> str | None:
        """The checkpoint in it, not verified; `None` when there is no file, empty when it is damaged.

        Raises `StoreUnavailable` when it is there and cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                content = json.loads(file.read(_MAX_BYTES))
        except FileNotFoundError:
            return None
        except OSError as fault:
            raise StoreUnavailable(f"`{self.path}` cannot be read: {fault.strerror}") from fault
        except (ValueError, RecursionError):
            return ""
        is_known = isinstance(content, dict) and content.get("version") == _FILE_VERSION
        token = content.get("checkpoint") if is_known else None
        return token if isinstance(token, str) else ""

    def keep(self, written: WrittenCheckpoint) -> None:
        """Replace the file. Does not raise: an older anchor still holds, it only reaches less far."""
        content = json.dumps({"version": _FILE_VERSION, "checkpoint": written.token}).encode() + b"\n"
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            try:
                self._write(draft, content)
                os.replace(draft, self.path)
            finally:
                draft.unlink(missing_ok=True)
        except OSError:
            _log.error("the anchor file could not be written", exc_info=True)

    def check_continued(self, find_hash: Callable[[int], str | None]) -> None:
        """Refuse (`LogCorrupt`) a log without the checkpoint that the file names.

        To go on with it would replace the file, and with it the last trace of what was there.
        `find_hash(number)` is the hash of a checkpoint of the log.
        """
        token = self.read()
        if token is None:
            return
        anchor = unverified_anchor(token)
        if anchor is None or find_hash(anchor.number) != anchor.hash:
            raise LogCorrupt(
                "the decision log cannot be continued: it does not have the checkpoint that "
                f"`{self.path.name}` names; run `authz log verify`, and remove that file only if this log "
                "is meant to be another or an older one"
            )

    @staticmethod
    def _write(draft: Path, content: bytes) -> None:
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(content)
            file.flush()
            # Before the rename, or losing power could leave an empty file in the old one's place.
            os.fsync(descriptor)
