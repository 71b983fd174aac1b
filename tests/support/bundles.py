"""A bundle in a folder, for tests that start the service as a process."""

from pathlib import Path
from typing import Any

from tests.support.world import bundle_files


def write_bundle(folder: Path, **parts: Any) -> Path:
    """Write the files of `tests.support.world.bundle_files` below `folder` and return it."""
    for name, data in bundle_files(**parts).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
