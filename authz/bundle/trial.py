"""A trial load in a process of its own: reads the files, compiles them, and says what came of it.

Cedar's validation holds the interpreter lock for as long as it takes, and what a folder holds can be
anything: a pipe that never ends, a link to itself, more than memory takes. So everything that can fail
or take long happens here first, where it can be killed; the service only compiles bytes that passed.

What goes in is one JSON document, what comes out one JSON line and then the bytes of the files.
"""

import json
import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from authz.bundle.load import BundleSources, compile_bundle, read_sources
from authz.bundle.self_protection import Protected
from authz.errors import BundleError, BundleProblem

BOOTSTRAP: Final = (
    "import json, sys; asked = json.load(sys.stdin.buffer); sys.path[:] = asked['path']; "
    "from authz.bundle.trial import run; run(asked)"
)
"""The program: finds this module where the service found it, and nowhere in the working directory."""
NICENESS: Final = 10
"""Requests go first."""

Found = BundleSources | tuple[BundleProblem, ...]


def request_for(
    folder: Path, protected: Protected, known_version: str, *, cpu_seconds: int, memory_bytes: int
) -> bytes:
    """What the process reads. `cpu_seconds` and `memory_bytes` (address space) end it from within."""
    return json.dumps(
        {
            "path": sys.path,
            "folder": os.fspath(folder),
            "known_version": known_version,
            "protected": {
                "directories": sorted(protected.directories),
                "files": sorted(protected.files),
                "hosts": sorted(protected.hosts),
                "port": protected.port,
                "non_global_addresses": protected.non_global_addresses,
            },
            "cpu_seconds": cpu_seconds,
            "memory_bytes": memory_bytes,
        }
    ).encode()


def run(asked: Mapping[str, Any]) -> None:
    """The whole life of the process."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CPU, (asked["cpu_seconds"], asked["cpu_seconds"]))
    resource.setrlimit(resource.RLIMIT_AS, (asked["memory_bytes"], asked["memory_bytes"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    told = asked["protected"]
    protected = Protected(
        directories=frozenset(told["directories"]),
        files=frozenset(told["files"]),
        hosts=frozenset(told["hosts"]),
        port=told["port"],
        non_global_addresses=told["non_global_addresses"],
    )
    _answer(sys.stdout.buffer, Path(asked["folder"]), protected, asked["known_version"])


def _answer(output: BinaryIO, folder: Path, protected: Protected, known_version: str) -> None:
    found = _look(folder)
    if isinstance(found, BundleSources) and found.version == known_version:
        _say(output, {"outcome": "unchanged"})
        return
    problems = _compile(found, protected) if isinstance(found, BundleSources) else found
    # Whoever writes while we read leaves us half of the old and half of the new.
    if _trace(_look(folder)) != _trace(found):
        _say(output, {"outcome": "moving"})
    elif problems or not isinstance(found, BundleSources):
        _say(output, {"outcome": "rejected", "problems": [_told(problem) for problem in problems]})
    else:
        sizes = {name: len(data) for name, data in found.files.items()}
        _say(output, {"outcome": "good", "version": found.version, "sizes": sizes}, *found.files.values())


def _look(folder: Path) -> Found:
    try:
        return read_sources(folder)
    except BundleError as error:
        return error.problems


def _compile(sources: BundleSources, protected: Protected) -> tuple[BundleProblem, ...]:
    try:
        compile_bundle(sources, protected)
    except BundleError as error:
        return error.problems
    return ()


def _trace(found: Found) -> object:
    return found.version if isinstance(found, BundleSources) else [str(problem) for problem in found]


def _told(problem: BundleProblem) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in BundleProblem.__slots__}


def _say(output: BinaryIO, header: Mapping[str, Any], *contents: bytes) -> None:
    output.write(json.dumps(header).encode() + b"\n")
    output.writelines(contents)
    output.flush()
