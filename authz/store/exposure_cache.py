"""What sessions were exposed to, kept in memory where one process is the only one that writes it."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_SESSIONS: Final = 8192


class ExposureCache:
    """Exact, never stale: every change goes through `add`, once it is durable."""

    def __init__(self) -> None:
        self._labels: OrderedDict[str, frozenset[str]] = OrderedDict()

    def find(self, session_key: str, load: Callable[[str], frozenset[str]]) -> frozenset[str]:
        """The labels of a session; `load` reads them when they are not in memory, and may raise."""
        labels = self._labels.get(session_key)
        if labels is None:
            labels = load(session_key)
            self._labels[session_key] = labels
            if len(self._labels) > MAX_SESSIONS:
                self._labels.popitem(last=False)
        return labels

    def add(self, session_key: str, labels: frozenset[str]) -> None:
        """A durable exposure. What is not in memory is read from the store when it is next asked for."""
        known = self._labels.get(session_key)
        if known is not None:
            self._labels[session_key] = known | labels
