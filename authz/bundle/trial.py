"""A trial load in a process of its own: reads the files, compiles them, and says what came of it.

Cedar's validation holds the interpreter lock for as long as it takes, and what a folder holds can be
anything: a pipe that never ends, a link to itself, more than memory takes. So everything that can fail
or take long happens here first, where it can be killed; the service only compiles bytes that passed.

What goes in is one JSON document, what comes out one JSON line, then what passed validation, and then the
bytes of the files.
"""

import base64
import json
import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from authz.bundle.load import compile_bundle
from authz.bundle.self_protection import Protected
from authz.bundle.sources import BundleSources, read_sources
from authz.core.policy import ValidationCache, validation_digests
from authz.core.ruleset import Ruleset
from authz.core.steps import Step, go_on
from authz.errors import BundleError, BundleProblem
from authz.processes import program_digest

OUT_OF_MEMORY: Final = 71
"""The exit code of a trial that needed more memory than it may have."""
CPU_GRACE_SECONDS: Final = 5
"""Between the signal that ends a trial for its processor time and the one that nothing outlives."""
MAX_PROBLEMS: Final = 1000
"""How many are told; how many more there are, one more says."""
MAX_TEXT: Final = 2000
"""Characters of a message or a hint."""

Found = BundleSources | tuple[BundleProblem, ...]


def request_for(
    folder: Path,
    protected: Protected,
    in_force: Ruleset,
    *,
    cpu_seconds: int,
    memory_bytes: int,
    step: Step = go_on,
) -> bytes:
    """What the process reads. `cpu_seconds` and `memory_bytes` (address space) end it from within.

    Rules that stand in the bundle `in_force` under the same schema have passed, and do not pass again.
    """
    passed = validation_digests(in_force.schema_text, in_force.engine.policies.values(), step)
    return json.dumps(
        {
            "program": program_digest(),
            "folder": os.fspath(folder),
            "known_version": in_force.version,
            "passed": base64.b64encode(passed).decode(),
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


def main() -> None:
    """The whole life of the process."""
    try:
        _run(json.load(sys.stdin.buffer))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _run(asked: Mapping[str, Any]) -> None:
    if program_digest() != asked["program"]:
        # What passes here could be refused there, or mean something else.
        _say(sys.stdout.buffer, {"outcome": "other_program"})
        return
    cpu_seconds = asked["cpu_seconds"]
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + CPU_GRACE_SECONDS))
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
    validations = ValidationCache.of(base64.b64decode(asked["passed"]))
    _answer(sys.stdout.buffer, Path(asked["folder"]), protected, asked["known_version"], validations)


def _answer(
    output: BinaryIO, folder: Path, protected: Protected, known_version: str, validations: ValidationCache
) -> None:
    found = _look(folder)
    if isinstance(found, BundleSources) and found.version == known_version:
        _say(output, {"outcome": "unchanged"})
        return
    compiled = _compile(found, protected, validations) if isinstance(found, BundleSources) else found
    # Whoever writes while we read leaves us half of the old and half of the new.
    if _trace(_look(folder)) != _trace(found):
        _say(output, {"outcome": "moving"})
    elif isinstance(found, BundleSources) and isinstance(compiled, Ruleset):
        sizes = {name: len(data) for name, data in found.files.items()}
        passed = validation_digests(compiled.schema_text, compiled.engine.policies.values())
        header = {"outcome": "good", "version": found.version, "passed": len(passed), "sizes": sizes}
        _say(output, header, passed, *found.files.values())
    else:
        problems = compiled if isinstance(compiled, tuple) else ()
        _say(output, {"outcome": "rejected", "problems": _told_all(problems)})


def _look(folder: Path) -> Found:
    try:
        return read_sources(folder)
    except BundleError as error:
        return error.problems


def _compile(
    sources: BundleSources, protected: Protected, validations: ValidationCache
) -> Ruleset | tuple[BundleProblem, ...]:
    try:
        return compile_bundle(sources, protected, validations)
    except BundleError as error:
        return error.problems


def _trace(found: Found) -> object:
    return found.version if isinstance(found, BundleSources) else [str(problem) for problem in found]


def _told_all(problems: tuple[BundleProblem, ...]) -> list[dict[str, Any]]:
    told = [_told(problem) for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        more = BundleProblem(
            f"and {len(problems) - MAX_PROBLEMS} more problems",
            file="bundle.yaml",
            hint="`authz check` tells all of them",
            code="bundle.more",
        )
        told.append(_told(more))
    return told


def _told(problem: BundleProblem) -> dict[str, Any]:
    told = {name: getattr(problem, name) for name in BundleProblem.__slots__}
    return told | {name: told[name][:MAX_TEXT] for name in ("message", "hint")}


def _say(output: BinaryIO, header: Mapping[str, Any], *contents: bytes) -> None:
    output.write(json.dumps(header).encode() + b"\n")
    output.writelines(contents)
    output.flush()
