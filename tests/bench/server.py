"""Servers under measurement: started on a core of their own, asked for their CPU time, stopped by pid."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.bench.calls import ALLOWED, DecideRequests, SameRequest, render

CHECKOUT: Final = Path(__file__).resolve().parents[2]
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """Where the two sides run. Equal when there is only one core: then they take turns."""

    server: int
    load: int

    @classmethod
    def choose(cls) -> "Cores":
        """The last two cores that this process may use: the first serves interrupts more often."""
        allowed = sorted(os.sched_getaffinity(0))
        return cls(server=allowed[-1], load=allowed[-2] if len(allowed) > 1 else allowed[-1])

    @property
    def are_separate(self) -> bool:
        return self.server != self.load


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server and what to send to it."""

    name: str
    pid: int
    port: int
    requests: DecideRequests | SameRequest
    expected: bytes

    def cpu_seconds(self) -> float:
        """CPU time of the whole process, all threads, user and system."""
        return process_cpu_seconds(self.pid)

    def rss_bytes(self) -> int:
        """Resident memory now."""
        return int(psutil.Process(self.pid).memory_info().rss)


def process_cpu_seconds(pid: int) -> float:
    """CPU time of a process with all its threads.

    By its CPU clock (clock_getcpuclockid(3)), which counts nanoseconds; the ticks of `/proc` that
    psutil reads are 10 ms, too coarse for a short run.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)


@contextmanager
def serving_baseline(name: str, cores: Cores) -> Iterator[Server]:
    """The `empty` or `fastapi` application of `tests.bench.baselines`."""
    port = _free_port()
    command = [sys.executable, "-m", "tests.bench.baselines", name, "--port", str(port)]
    if name == "empty":
        request = render("GET", "/", b"", None)
    else:
        request = render("POST", "/items", b'{"name":"a","price":1.5,"tags":["x","y"]}', None)
    with _running(command, {}, port, cores) as pid:
        yield Server(name=name, pid=pid, port=port, requests=SameRequest(request), expected=b'{"ok":true}')


@contextmanager
def serving_authz(
    name: str, bundle: Path, data_dir: Path, cores: Cores, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """`authz serve` as it is shipped, over `bundle`, with a fresh database in `data_dir`."""
    port = _free_port()
    key = f"azk_{secrets.token_urlsafe(32)}"
    command = [sys.executable, "-m", "authz", "serve", "--dev", "--port", str(port)]
    command += ["--policies", str(bundle), "--data-dir", str(data_dir)]
    settings = {"AUTHZ_DEV_KEY": key, "AUTHZ_LOG_LEVEL": "warning", **(environment or {})}
    with _running(command, settings, port, cores) as pid:
        yield Server(name=name, pid=pid, port=port, requests=DecideRequests(key), expected=ALLOWED)


@contextmanager
def _running(
    command: Sequence[str], environment: Mapping[str, str], port: int, cores: Cores
) -> Iterator[int]:
    # Whatever the caller's shell configures must not change what is measured.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AUTHZ_")}
    # The child inherits the affinity, and with it every thread that it will ever start.
    os.sched_setaffinity(0, {cores.server})
    try:
        process = subprocess.Popen(
            command, cwd=CHECKOUT, env={**inherited, **environment}, stdout=subprocess.DEVNULL
        )
    finally:
        os.sched_setaffinity(0, {cores.load})
    try:
        _wait_until_listening(process, port)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_listening(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with exit code {process.returncode} before it listened")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("the server did not listen in time")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
