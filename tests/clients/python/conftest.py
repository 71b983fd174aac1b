"""Fixtures of the tests of fetching."""

from collections.abc import Iterator

import pytest

from tests.clients.python.fetching import Fetch, fetch_asynchronously, fetch_blocking, ok
from tests.clients.python.webs import Web, serving


@pytest.fixture(params=[fetch_blocking, fetch_asynchronously], ids=["sync", "async"])
def get(request: pytest.FixtureRequest) -> Fetch:
    """`fetch`, and `fetch_async` in a loop of its own."""
    found: Fetch = request.param
    return found


@pytest.fixture
def web() -> Iterator[Web]:
    """A server that answers everything with a page."""
    with serving(ok) as web:
        yield web
