"""JSON logs on standard error, a line an event, without secrets."""

import logging
import sys
from datetime import UTC, datetime

import orjson

_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "asctime",
    "color_message",
}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the record's extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON text."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return orjson.dumps(fields, default=str).decode()


def configure_logging(level: str) -> None:
    """Send every logger's records to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # It tells every event of the file system; what comes of them tells `authz.bundle`.
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    # They tell the urls that are asked, and that of a webhook is a secret.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
