"""The true calls of AgentDojo's user tasks, with the provenance that a runtime would have found.

Every task's ground truth is executed in the package's own environment, so that later arguments can be
traced to earlier results. Nothing depends on the clock (it is fixed) or on the order of sets, so two runs
give the same bytes, whatever the hash seed. As a command it prints one call a line:

    python -m tests.agentdojo.ground_truth
"""

import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from agentdojo.default_suites.v1.tools import cloud_drive_client, email_client  # type: ignore[import-untyped]
from agentdojo.functions_runtime import FunctionsRuntime  # type: ignore[import-untyped]

from authz.bundle.load import load_bundle
from authz.bundle.self_protection import Protected
from authz.core.pointer import format_pointer, leaves
from authz.core.ruleset import Ruleset
from tests.agentdojo.catalogue import SUITES, load_suite
from tests.agentdojo.labels import SeenLeaf, label, seen_in

BUNDLE: Final = Path(__file__).parent / "bundle"
FIXED_NOW: Final = datetime.datetime(2024, 5, 15, 12, 0)  # noqa: DTZ001 - naive, as in the package


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueCall:
    """One call of a task's ground truth."""

    suite: str
    task: str
    index: int
    tool: str
    arguments: dict[str, Any]
    provenance: dict[str, dict[str, str]]

    @property
    def trace(self) -> str:
        """One trace a task."""
        return f"{self.suite}/{self.task}"

    @property
    def id(self) -> str:
        """The id of the tool call within its trace."""
        return f"call-{self.index}"


def true_calls() -> list[TrueCall]:
    """Every ground-truth call of the suites, in the order of suites, tasks (by number) and calls."""
    ruleset = load_bundle(BUNDLE, Protected())
    with fixed_clock():
        return [call for suite in SUITES for call in _calls_of_suite(suite, ruleset)]


def _calls_of_suite(name: str, ruleset: Ruleset) -> Iterator[TrueCall]:
    suite = load_suite(name)
    untouched = suite.load_and_inject_default_environment({})
    for task_id in sorted(suite.user_tasks, key=lambda text: int(text.rpartition("_")[2])):
        task = suite.user_tasks[task_id]
        environment = task.init_environment(untouched.model_copy(deep=True))
        runtime = FunctionsRuntime(suite.tools)
        seen: list[SeenLeaf] = []
        # The truth is told from the environment as it is before the first call.
        for index, true in enumerate(task.ground_truth(environment.model_copy(deep=True))):
            tool = ruleset.tools[name, true.function]
            # Through JSON, because that is all that a runtime could send.
            arguments = json.loads(json.dumps(dict(true.args)))
            provenance = {
                format_pointer(tokens): label(
                    value, role=tool.roles.role_of(tokens), prompt=task.PROMPT, seen=seen
                )
                for tokens, value in leaves(arguments)
                if tokens
            }
            call = TrueCall(
                suite=name,
                task=task_id,
                index=index,
                tool=true.function,
                arguments=arguments,
                provenance=provenance,
            )
            yield call
            result, _ = runtime.run_function(environment, true.function, true.args, raise_on_error=True)
            seen += seen_in(result, tool, arguments, call.id, str(index))


class _FixedDateTime(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "_FixedDateTime":
        return cls.combine(FIXED_NOW.date(), FIXED_NOW.time(), tz)


@contextmanager
def fixed_clock() -> Iterator[None]:
    """The tools of the package read the clock themselves and take none, so it is exchanged under them."""
    modules: tuple[Any, ...] = (email_client, cloud_drive_client)
    fixed = SimpleNamespace(datetime=_FixedDateTime, date=datetime.date, timedelta=datetime.timedelta)
    real = [module.datetime for module in modules]
    for module in modules:
        module.datetime = fixed
    try:
        yield
    finally:
        for module, original in zip(modules, real, strict=True):
            module.datetime = original


def to_lines(calls: list[TrueCall]) -> str:
    """The calls as JSON, one a line."""
    return "".join(json.dumps(asdict(call), sort_keys=True, ensure_ascii=False) + "\n" for call in calls)


if __name__ == "__main__":
    print(to_lines(true_calls()), end="")
