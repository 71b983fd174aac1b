"""Processes of this program, for work that must not hold up the service: what they execute, how they end.

Python puts the working directory, or what `PYTHONPATH` names, before everything else: whoever may write there
would be executed with the service's rights. So these processes run isolated (`python -I`): they find the
standard library, the installed packages, and this very package in its folder, but not what lies beside it.
"""

import contextlib
import ctypes
import hashlib
import importlib
import os
import signal
import site
import sys
from enum import StrEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parent
BOOTSTRAP: Final = """\
import os, sys
module, parent, folder, courtesy = sys.argv[1:5]
try:
    if courtesy != "none":
        os.nice(10)
    if courtesy == "idle":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
except (AttributeError, OSError):
    pass
from importlib.util import module_from_spec, spec_from_file_location
sys.path += sys.argv[5:]
spec = spec_from_file_location("authz", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules["authz"] = package = module_from_spec(spec)
spec.loader.exec_module(package)
from authz.processes import run
run(module, int(parent))
"""
"""Before all else, while it has cost next to nothing, it takes the place in the queue that it is told."""
OOM_SCORE: Final = 500
"""Of 1000: when memory is short, these go before the service does."""
PR_SET_PDEATHSIG: Final = 1
"""`prctl(2)`."""
_DECIDES: Final = ("bundle", "core", "model")
"""Parts of this package in which is decided what a bundle's files come to."""
_DECIDES_WITH: Final = (
    *("cedarpy", "jsonschema-rs", "pydantic", "pydantic-core", "pyyaml", "orjson", "rfc8785"),
    # What is canonical, and so what the rules and the cases of a bundle name.
    *("can-ada", "idna", "publicsuffixlist", "sqlglot", "tree-sitter", "tree-sitter-bash"),
    "authz-client",
)
"""Packages whose version changes what the same files come to; those that are not installed count as such."""


class Courtesy(StrEnum):
    """Whether requests go first where a process of ours wants the same processor."""

    NONE = "none"
    NICE = "nice"
    """It gets a tenth of what others get, and where they sleep it keeps them waiting for milliseconds."""
    IDLE = "idle"
    """It keeps nobody waiting (`SCHED_IDLE`), and gets next to nothing where others always want more."""


def command(module: str, courtesy: Courtesy = Courtesy.NONE) -> tuple[str, ...]:
    """The command line of a process that runs `main()` of a module of this package."""
    # A user's own packages, which an isolated interpreter leaves out, where this one has them.
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    parent, folder = str(os.getpid()), os.fspath(PACKAGE)
    return (sys.executable, "-I", "-c", BOOTSTRAP, module, parent, folder, courtesy.value, *users)


def raised(pid: int, courtesy: Courtesy) -> bool:
    """Give a running process, with all of its threads, the place of a lesser courtesy.

    Not every system lets everybody (sched(7): it takes `CAP_SYS_NICE` or `RLIMIT_NICE`). Returns whether this
    one does.
    """
    try:
        threads = [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
        for thread in threads:
            if os.sched_getscheduler(thread) == os.SCHED_IDLE:
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            if courtesy is Courtesy.NONE:
                os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, 0))
    except (AttributeError, OSError):
        return False
    return True


def environment() -> dict[str, str]:
    """What such a process may know of the service's environment, which can hold keys."""
    return {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}


def run(module: str, parent: int) -> None:
    """The whole life of such a process. It ends with its parent, whatever ends that."""
    _end_with(parent)
    importlib.import_module(module).main()


def _end_with(parent: int) -> None:
    # Where the system cannot do one of these, the process still ends once its pipes are closed.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the service has ended")
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))


@cache
def program_digest() -> str:
    """Tells this program from one that could make something else of the same bundle.

    Of what was on disk at the first call, so call it while that is what runs.
    """
    told = hashlib.sha256(sys.version.encode())
    for name in _DECIDES_WITH:
        told.update(f"{name} {_version(name)}\n".encode())
    for path in sorted(path for part in _DECIDES for path in (PACKAGE / part).rglob("*.py")):
        told.update(f"{path.relative_to(PACKAGE)}\n".encode())
        told.update(hashlib.sha256(path.read_bytes()).digest())
    return told.hexdigest()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"
