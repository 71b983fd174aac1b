"""The real service as a child process on a free loopback port, for tests that speak HTTP to it."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx

POLL_SECONDS: Final = 0.05
READY_POLLS: Final = 2400
"""Two minutes: a loaded machine is slow to import, not broken."""
STOP_SECONDS: Final = 20
PORT_ATTEMPTS: Final = 5
LOG_TAIL: Final = 4000


class ServerFailed(Exception):
    """The service did not start, or did not end as asked. The message ends with what it printed."""


class RunningServer:
    """`authz serve --dev` over one bundle and one data directory.

    Use it as a context manager, or call `start` and `stop`. After `stop` or `kill` the same object can be
    started again over the same data: the port changes, the key stays. `env` adds to the environment of the
    service, from which every other `AUTHZ_` variable of the test run is taken out.
    """

    def __init__(
        self,
        *,
        bundle: Path,
        data_dir: Path,
        env: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.bundle = bundle
        self.data_dir = data_dir
        self.key = f"azk_{secrets.token_urlsafe(32)}"
        self.output = data_dir.parent / f"{data_dir.name}.server.log"
        """What the service prints, standard output and standard error together, over all starts."""
        self._env = dict(env or {})
        self._arguments = arguments
        self._port: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens, without a final slash. By address, so that no resolver is asked."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        """The port of the last start."""
        if self._port is None:
            raise ServerFailed("the server was never started")
        return self._port

    @property
    def pid(self) -> int:
        """The process id while it runs."""
        return self._running().pid

    @property
    def headers(self) -> dict[str, str]:
        """What authenticates a request with the dev key."""
        return {"Authorization": f"Bearer {self.key}"}

    def client(self, *, timeout_seconds: float = 30) -> httpx.Client:
        """An authenticated client. The caller closes it; proxies of the environment are not used."""
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=timeout_seconds, trust_env=False)

    def start(self) -> Self:
        """Start and wait until it is ready. Raises `ServerFailed` with the output when it does not."""
        if self._process is not None:
            raise ServerFailed("the server runs already")
        for _ in range(PORT_ATTEMPTS):
            self._port = free_port()
            begun = self.output.stat().st_size if self.output.exists() else 0
            self._spawn(self._port)
            if self._wait_until_ready():
                return self
            # Between our release and its bind, another process can take the port: only that is tried anew.
            said = self.output.read_bytes()[begun:]
            if b"cannot listen on" not in said:
                raise ServerFailed(f"the server ended before it was ready:\n{self.printed()}")
        raise ServerFailed(f"no port was free in {PORT_ATTEMPTS} attempts")

    def stop(self) -> int:
        """SIGTERM, then wait for the end. Returns the exit code; does nothing when it has ended."""
        process = self._process
        if process is None:
            return 0
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailed(
                f"the server did not end within {STOP_SECONDS} s of SIGTERM:\n{self.printed()}"
            ) from None
        self._process = None
        return code

    def kill(self) -> None:
        """SIGKILL: the end without any goodbye, as a power cut would be."""
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait(STOP_SECONDS)
        self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Send another signal, SIGHUP for one."""
        self._running().send_signal(number)

    def printed(self) -> str:
        """The end of what it has printed."""
        return self.output.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerFailed("the server does not run")
        return self._process

    def _spawn(self, port: int) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTHZ_")}
        environment |= {"AUTHZ_PORT": str(port), "AUTHZ_DEV_KEY": self.key} | self._env
        self.output.parent.mkdir(parents=True, exist_ok=True)
        # A file and no pipe: a pipe that nobody reads fills up and stops the service.
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "authz", "serve", "--dev"),
                    *("--policies", str(self.bundle), "--data-dir", str(self.data_dir)),
                    *self._arguments,
                ],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _wait_until_ready(self) -> bool:
        """False when the process ended first. Raises `ServerFailed` when it neither ends nor gets ready."""
        process = self._running()
        with httpx.Client(base_url=self.url, timeout=5, trust_env=False) as client:
            for _ in range(READY_POLLS):
                if process.poll() is not None:
                    self._process = None
                    return False
                try:
                    ready = client.get("/readyz").status_code == httpx.codes.OK
                except httpx.TransportError:
                    ready = False
                # Someone else may answer on this port while ours still starts and then fails to bind:
                # the answer counts only once our own process has said that it listens.
                if ready and b"listening on http://127.0.0.1:%d " % self.port in self.output.read_bytes():
                    return True
                time.sleep(POLL_SECONDS)
        self.kill()
        raise ServerFailed(f"the server was not ready after {READY_POLLS} polls:\n{self.printed()}")


def free_port() -> int:
    """A port of the loopback address that nobody listens on at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
