"""A runtime that makes one guarded call with given ids, and is killed at a step. Started by its test.

python -m tests.clients.python.guarded_child '{"url": …, "key": …, "kind": "sync", "step": "started", …}'
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from authz_client.guard import CallRefused

from tests.clients.python.guarding import MAIL, AsyncRuntime, SyncRuntime


def main() -> None:
    asked = json.loads(sys.argv[1])
    step, effects = asked["step"], Path(asked["effects"])

    def reached(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    looked: list[Any] = []

    def resolve(arguments: Any) -> dict[str, Any]:
        looked.append(arguments)
        reached("parsed" if len(looked) == 1 else "decided")
        return {}

    def tool(permitted: Any) -> str:
        reached("started")
        with effects.open("a") as file:
            file.write(f"{permitted.idempotency_key}\n")
        reached("effect")
        permitted.succeeded(external_id="m-1")
        reached("told")
        return "done"

    kind = SyncRuntime if asked["kind"] == "sync" else AsyncRuntime
    runtime = kind(asked["url"], asked["key"], trace_id=asked["trace"])
    options = {"resolve": resolve} if asked["resolves"] else {}
    try:
        said = runtime.call(MAIL, tool, turn_id="1", tool_call_id="c", **options)
    except CallRefused as refused:
        said = type(refused).__name__
    reached("settled")
    print(said)


if __name__ == "__main__":
    main()
