"""`authz hook claude-code`: every tool call of Claude Code goes through the service, by a line of settings.

Before a tool (`PreToolUse`): the call is put to the service, an approval is waited for, and the answer is
that hook's JSON. After it (`PostToolUse`, `PostToolUseFailure`): how it ended is told.

By default the runtime lets a tool run when its hook fails, unless it fails with exit code 2. So whatever goes
wrong here ends with that code, before the runtime's own timeout; `"onFailure": "block"` in its settings
covers what no program can answer for: that it is missing, or killed.
"""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final, NoReturn

from authz_client.hooks._event import read_event
from authz_client.hooks._failed import HookFailed
from authz_client.hooks._hook import Hook
from authz_client.hooks._settings import OnAsk, read_settings

HELP: Final = "decide the tool calls of Claude Code: one event on standard input, the hook's answer out"
PROGRAM: Final = "authz hook claude-code"
BLOCKED: Final = 2
"""The one exit code by which a hook keeps a tool from running."""
_OPTIONS: Final = (
    *("config", "url", "agent", "on_behalf_of", "sandbox_root", "tools", "key_file", "on_ask"),
    *("approval_seconds", "timeout_seconds"),
)
_GRACE_SECONDS: Final = 2.0
"""How long before the runtime's timeout this ends by itself."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Settings, above those of the file."""
    parser.add_argument("--config", metavar="FILE", help="settings (default: ~/.config/authz/hook.json)")
    parser.add_argument("--url", help="the service (default: http://127.0.0.1:8700)")
    parser.add_argument("--agent", metavar="NAME", help="who the main agent is")
    parser.add_argument("--on-behalf-of", metavar="NAME", help="the person whom it works for")
    parser.add_argument("--sandbox-root", metavar="FOLDER", help="what the agent is held in, if anything")
    parser.add_argument("--tools", metavar="FILE", help="which tool of the registry each tool is")
    parser.add_argument("--key-file", metavar="FILE", help="the API key, of mode 0600 (or AUTHZ_HOOK_KEY)")
    parser.add_argument(
        "--on-ask",
        choices=list(OnAsk),
        help="where a rule asks: wait for the approval, or hand over to the runtime's dialog, "
        "whose yes is neither bound nor recorded",
    )
    parser.add_argument(
        "--approval-seconds", type=float, metavar="N", help="how long to wait for it (default: 90)"
    )
    parser.add_argument(
        "--timeout-seconds", type=float, metavar="N", help="the hook's own `timeout` (default: 120)"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Answer one event. Exit code 0 with an answer, or 2: the tool must not run."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description=HELP)
    add_arguments(parser)
    return run(parser.parse_args(argv))


def run(args: argparse.Namespace) -> int:
    """Answer one event, as `args` say. Whatever goes wrong is exit code 2."""
    try:
        settings = read_settings({name: getattr(args, name) for name in _OPTIONS}, os.environ)
        with _ending_before(settings.timeout_seconds - _GRACE_SECONDS):
            hook = Hook.of(settings, os.environ)
            reply = hook.answer(read_event(sys.stdin.buffer))
            sys.stdout.write(reply)
            sys.stdout.flush()
        return 0
    except HookFailed as failed:
        said = failed.message
    except BaseException as error:  # noqa: BLE001 - a tool runs where its hook ends by anything else
        said = f"it failed unexpectedly ({type(error).__name__})"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"authz: {said}\n")
        sys.stderr.flush()
    # What is still buffered goes nowhere, or the interpreter would fail on it at its end, with another code.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BLOCKED


@contextlib.contextmanager
def _ending_before(seconds: float) -> Iterator[None]:
    """Ends by `HookFailed` at that time, and when the process is asked to end, where signals allow it."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if number == signal.SIGTERM:
            raise HookFailed("it was ended before there was an answer")
        raise HookFailed("there was no answer before the hook's timeout")

    signal.signal(signal.SIGTERM, end)
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.1))
    try:
        yield
    finally:
        # What is left is to end, by the code that was decided on.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    sys.exit(main())
