"""Where a long computation can be interrupted: it calls its `Step` between any two small pieces of work.

What happens there is its caller's business. A service lets its requests go first; everyone else goes on.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Step = Callable[[], None]

Item = TypeVar("Item")


def go_on() -> None:
    """The step of whoever is in nobody's way."""


def stepwise(items: Iterable[Item], step: Step) -> Iterator[Item]:
    """`items`, with a step after each."""
    for item in items:
        yield item
        step()
