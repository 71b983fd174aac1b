"""The client's own tests, by Node's test runner: alone, with the public vectors, and against the service."""

import threading
from collections.abc import Iterator

import pytest

from tests.clients.python.guarding import Grace, serve
from tests.clients.typescript.noding import PACKAGE, require_node, run_tests
from tests.support.server import RunningServer
from tests.support.shared import require_shared

ALONE = [
    "strict-json.test.js",
    "capabilities.test.js",
    "client.test.js",
    "guard.test.js",
    "settling.test.js",
    "network.test.js",
]
WITH_VECTORS = "shared.test.js"
WITH_SERVICE = "service.test.js"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    require_node()
    with serve(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.mark.parametrize("name", ALONE)
def test_alone(name: str) -> None:
    assert run_tests(name) >= 8


@pytest.mark.external
def test_public_vectors() -> None:
    assert run_tests(WITH_VECTORS, env={"AUTHZ_SHARED": str(require_shared())}) == 4


def test_against_the_service(server: RunningServer) -> None:
    grace = Grace(server)
    people = [
        threading.Thread(target=grace.approve, args=("pay-yes",)),
        threading.Thread(target=grace.deny, args=("pay-no", "not on a Friday")),
    ]
    for person in people:
        person.start()
    try:
        assert run_tests(WITH_SERVICE, env={"AUTHZ_TEST_URL": server.url, "AUTHZ_TEST_KEY": server.key}) >= 9
    finally:
        for person in people:
            person.join()
        grace.close()


def test_every_test_file_is_run() -> None:
    found = {path.name for path in (PACKAGE / "test").glob("*.test.js")}
    assert found == {*ALONE, WITH_VECTORS, WITH_SERVICE}
