"""A service over the reviewed bundle, and the calls that it is asked about."""

from collections.abc import Iterator

import httpx
import pytest

from tests.agentdojo.ground_truth import BUNDLE, TrueCall, true_calls
from tests.agentdojo.replay import Catalogue
from tests.support.server import RunningServer


@pytest.fixture(scope="session")
def calls() -> list[TrueCall]:
    """Every ground-truth call of both suites."""
    return true_calls()


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    """What a client has seen of the tools."""
    return Catalogue()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The service, with a log of its own for each module of tests."""
    with RunningServer(bundle=BUNDLE, data_dir=tmp_path_factory.mktemp("agentdojo") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    """An authenticated client of the service."""
    with server.client() as opened:
        yield opened
