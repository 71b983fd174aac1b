"""`authz test --watch`: run again whenever a file of the bundle changes."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path

import watchfiles

from authz.errors import BundleError, BundleProblem

WATCHED = (".cedar", ".yaml")


def watch(folder: Path, run: Callable[[], int], *, say: Callable[[str], None]) -> int:
    """Call `run` now and after every change in `folder`, until Ctrl-C or SIGTERM.

    Answers with what the last run answered. Raises `BundleError` when there is no such folder.
    """
    if not folder.is_dir():
        raise BundleError((BundleProblem("there is no such folder", file=str(folder)),))
    stop = threading.Event()
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in previous:
        signal.signal(number, lambda *_: stop.set())
    try:
        # The watch begins before the first run, so that no change falls between the two.
        changes = watchfiles.watch(
            folder, watch_filter=_is_bundle_file, stop_event=stop, yield_on_timeout=True, rust_timeout=200
        )
        next(changes, None)
        code = run()
        say(f"watching {folder}; Ctrl-C ends it")
        for changed in changes:
            if stop.is_set():
                break
            if changed:
                names = sorted({Path(path).name for _, path in changed})
                say(f"changed: {', '.join(names)}")
                code = run()
                say(f"watching {folder}; Ctrl-C ends it")
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return code


def _is_bundle_file(_: watchfiles.Change, path: str) -> bool:
    return path.endswith(WATCHED)
