"""What holds for every test: how hard Hypothesis tries, and that a skipped test is never silent."""

import contextlib
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.postgres import NoPostgres, Postgres

# No deadlines: a slow machine is not a bug. What fails at random prints how to run it again.
settings.register_profile("default", deadline=None, print_blob=True)
# The same examples in every run, so that a change is judged by what it changed.
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Coroutine tests run on asyncio, as the service does."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL server, shared by the whole run: make a database of your own in it."""
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(Postgres.running())
        except NoPostgres as fault:
            pytest.skip(str(fault))
        yield cluster


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """The url of a new, empty database, which is dropped at the end."""
    with postgres.database() as url:
        yield url


class SkipWatch:
    """Lists what was not verified; with AUTHZ_FORBID_SKIPS=1 the run then fails."""

    def __init__(self, *, forbidden: bool) -> None:
        self._forbidden = forbidden
        self._skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        # An expected failure is reported as skipped too, but it did run.
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._skipped.append(f"{report.nodeid}: {reason.removeprefix('Skipped: ')}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._skipped and self._forbidden and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._skipped:
            return
        color = "red" if self._forbidden else "yellow"
        terminalreporter.section("SKIPPED, not verified here", sep="=", bold=True, **{color: True})
        for line in self._skipped:
            terminalreporter.line(line, **{color: True})
        if self._forbidden:
            terminalreporter.line(
                "AUTHZ_FORBID_SKIPS is set: skipped tests fail this run", red=True, bold=True
            )


def pytest_configure(config: pytest.Config) -> None:
    """Watch skips in this run."""
    forbidden = os.environ.get("AUTHZ_FORBID_SKIPS") == "1"
    config.pluginmanager.register(SkipWatch(forbidden=forbidden), "authz-skip-watch")
