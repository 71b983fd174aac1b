"""What a reader must know of the machine to judge the numbers."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from tests.bench.server import Cores

_PACKAGES: Final = ("cedarpy", "fastapi", "httptools", "orjson", "pydantic", "uvicorn", "uvloop")


def machine_facts(cores: Cores) -> dict[str, Any]:
    """Interpreter, cores, load and package versions; nothing that names the machine."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "server_core": cores.server,
        "load_core": cores.load,
        "load_average_before": [round(load, 2) for load in os.getloadavg()],
        "packages": {name: version(name) for name in _PACKAGES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
