"""What programs call the files that they make is among what was predicted: the programs themselves decide."""

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from authz.core.canonical.shell import ShellAccess, analyse_shell
from authz.model.resource import Base, NotCanonical, Scope, Verb
from tests.property.shell_oracle import is_matched

pytestmark = pytest.mark.slow


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        if "named" in self.path:
            self.send_header("Content-Disposition", 'attachment; filename=".hidden-name"')
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"x\n")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


def predicted(line: str, folder: Path) -> tuple[ShellAccess, ...]:
    found = analyse_shell(line, Base(cwd=str(folder), home=str(folder / "home"), root=str(folder)))
    assert not isinstance(found, NotCanonical)
    return tuple(one for one in found if one.verb is Verb.WRITE)


def is_written(found: tuple[ShellAccess, ...], path: str) -> bool:
    for access in found:
        root = access.resource.entity.id
        if access.pattern is not None:
            if is_matched(access.pattern, root, path):
                return True
        elif path == root or (access.scope is Scope.TREE and path.startswith(f"{root}/")):
            return True
    return False


@pytest.mark.parametrize(
    "line",
    [
        "curl -sO {}/a.txt",
        "curl -s -O '{}/sub/a-b_c.tar.gz?x=1'",
        "curl -s -O {}/a%20b",
        "curl -s -O {}/a.txt -O {}/b.txt",
        "curl -sOJ {}/named",
        "curl -s --remote-name {}/x -o y {}/z",
        "wget -q --max-redirect=0 {}/a.txt",
        "wget -q --max-redirect=0 {}/a.txt {}/a.txt {}/a.txt",
        "wget -q --max-redirect=0 {}/",
        "wget -q --max-redirect=0 {}",
        "wget -q --max-redirect=0 '{}/sub/x?y=1'",
        "wget -q --max-redirect=0 {}/a%20b",
        "wget -q --max-redirect=0 -P into {}/a.txt",
        "wget -q --max-redirect=0 -O out {}/a.txt",
    ],
)
def test_downloads(line: str, server: str, tmp_path: Path) -> None:
    if shutil.which(line.split(maxsplit=1)[0]) is None:
        pytest.skip(f"{line.split(maxsplit=1)[0]} is not installed")
    (tmp_path / "home").mkdir()
    run = line.replace("{}", server)
    subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", run],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "no_proxy": "*"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=True,
    )
    made = [str(path) for path in tmp_path.rglob("*") if path.is_file()]
    assert made
    found = predicted(run, tmp_path)
    assert [path for path in made if not is_written(found, path)] == []


@pytest.mark.parametrize(
    "remote",
    [
        "http://127.0.0.1:1/team/app.git",
        "http://127.0.0.1:1/team/app",
        "http://127.0.0.1:1/team/app/",
        "http://127.0.0.1:1/team/app/.git",
        "http://127.0.0.1:1/team/.git",
        "http://127.0.0.1:1/",
        "http://127.0.0.1:1",
        "http://127.0.0.1:1/app.git.git",
        "http://127.0.0.1:1/app.bundle",
        "http://127.0.0.1:1/a%20b",
        "http://127.0.0.1:1/a:b",
    ],
)
@pytest.mark.parametrize("options", ["", "--bare ", "--mirror "])
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_clones(remote: str, options: str, tmp_path: Path) -> None:
    line = f"git clone {options}{remote}"
    told = subprocess.run(
        line.split(),
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    ).stderr.decode()
    named = re.search(r"Cloning into (?:bare repository )?'(.*)'", told)
    assert named is not None, told
    assert is_written(predicted(line, tmp_path), str(tmp_path / named[1])), named[1]
