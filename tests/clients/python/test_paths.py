"""Where paths really lead, on a real file system. The kernel is the oracle wherever it has an answer."""

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from authz_client.paths import MAX_LINKS, Kind, PathRefused, ResolvedPath, resolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authz.core.canonical import canonicalize
from authz.core.requests import parse_decide
from authz.model.resource import Base


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace with links of every kind, beside a folder that they lead out to."""
    work, out = tmp_path / "work", tmp_path / "out"
    (work / "sub" / "deep").mkdir(parents=True)
    out.mkdir()
    (work / "a.txt").write_text("a")
    (out / "secret").write_text("s")
    (work / "to_out").symlink_to(out)
    (work / "to_file").symlink_to("a.txt")
    (work / "sub" / "up").symlink_to("..")
    (work / "dangling").symlink_to(out / "later" / "file")
    (work / "chain").symlink_to("sub/up/to_out")
    (work / "loop").symlink_to("loop2")
    (work / "loop2").symlink_to("loop")
    return work


def at(work: Path, path: str, **more: object) -> ResolvedPath:
    return resolve(path, cwd=str(work), **more)  # type: ignore[arg-type]


def refused(work: Path, path: str, **more: object) -> str:
    with pytest.raises(PathRefused) as caught:
        at(work, path, **more)
    return caught.value.code


def is_identity_of(found: ResolvedPath, path: Path) -> bool:
    status = path.lstat()
    return (found.device, found.inode) == (status.st_dev, status.st_ino)


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("a.txt", "work/a.txt"),
        ("./sub/../a.txt", "work/a.txt"),
        ("sub//deep/", "work/sub/deep"),
        ("sub/deep/.", "work/sub/deep"),
        (".", "work"),
        ("to_file", "work/a.txt"),
        ("to_out/secret", "out/secret"),
        ("to_out/", "out"),
        ("chain/secret", "out/secret"),
        ("sub/up/sub/up/a.txt", "work/a.txt"),
        # `..` behind a link leads on from where the link led, not back to where it was written.
        ("to_out/../work/a.txt", "work/a.txt"),
        ("to_out/..", "."),
        ("chain/..", "."),
    ],
)
def test_an_object_that_is_there(work: Path, path: str, leads_to: str) -> None:
    found = at(work, path)
    expected = work.parent / leads_to
    assert found.path == str(expected)
    assert found.path == os.path.realpath(work / path, strict=True)
    assert found.exists
    assert found.ancestor == found.path
    assert is_identity_of(found, expected)


@pytest.mark.parametrize(
    ("path", "leads_to", "ancestor"),
    [
        ("new.txt", "work/new.txt", "work"),
        ("to_out/new.txt", "out/new.txt", "out"),
        ("to_out/x/y/z", "out/x/y/z", "out"),
        ("dangling", "out/later/file", "out"),
        ("dangling/../other", "out/later/other", "out"),
        ("chain/../new", "new", "."),
        ("new/", "work/new", "work"),
        # Below what is missing there can be no link, so `..` goes back by one name.
        ("new/../a.new", "work/a.new", "work"),
        ("new/x/../../to_out/b", "out/b", "out"),
    ],
)
def test_an_object_that_is_not_there_yet(work: Path, path: str, leads_to: str, ancestor: str) -> None:
    found = at(work, path)
    assert found.path == os.path.normpath(work.parent / leads_to)
    assert found.ancestor == os.path.normpath(work.parent / ancestor)
    assert found.kind is Kind.MISSING
    assert not found.exists
    assert is_identity_of(found, Path(found.ancestor))
    assert "/".join((found.ancestor.rstrip("/"), *found.missing)) == found.path


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", "path.empty"),
        ("a\0b", "path.nul"),
        ("loop", "path.loop"),
        ("loop/x", "path.loop"),
        ("loop/..", "path.loop"),
        ("a.txt/", "path.not_directory"),
        ("a.txt/.", "path.not_directory"),
        ("a.txt/x", "path.not_directory"),
        ("a.txt/../a.txt", "path.not_directory"),
        ("to_file/x", "path.not_directory"),
        ("x" * 256, "path.unresolvable"),
        ("x/" * 5000, "path.too_long"),
        ("~", "path.home_unknown"),
        ("~/secret", "path.home_unknown"),
        ("~root/secret", "path.home_of_user"),
        ("\ud800", "path.surrogate"),
        ("/proc/self/root/etc/passwd", "path.process_alias"),
        ("/proc/self/cwd", "path.process_alias"),
        ("/proc/thread-self/fd/0", "path.process_alias"),
        ("/dev/stdin", "path.process_alias"),
        ("/dev/fd/0", "path.process_alias"),
        ("file:", "path.file_uri"),
        ("file:a.txt", "path.file_uri"),
        ("file://elsewhere/a", "path.file_uri"),
        ("file:///a%2fb", "path.file_uri"),
        ("file:///a%zz", "path.file_uri"),
        ("file:///a%2", "path.file_uri"),
        ("file:///a?b", "path.file_uri"),
        ("file:///a#b", "path.file_uri"),
        ("file:///c:/x", "path.file_uri"),
        ("file:////etc", "path.file_uri"),
    ],
)
def test_what_leads_to_no_one_object(work: Path, path: str, code: str) -> None:
    if code == "path.process_alias" and sys.platform != "linux":
        pytest.skip("there is no procfs")
    assert refused(work, path) == code


def test_a_process_is_not_reached_by_its_number_either(work: Path) -> None:
    assert refused(work, f"/proc/{os.getpid()}/root/etc/passwd") in {
        "path.process_alias",
        "path.unresolvable",  # a kernel that lets nobody look
    }
    (work / "innocent").symlink_to(f"/proc/{os.getpid()}/cwd")
    assert refused(work, "innocent/a.txt") in {"path.process_alias", "path.unresolvable"}


def test_a_table_of_procfs_is_a_file(work: Path) -> None:
    assert at(work, "/proc/version").kind is Kind.FILE


def test_a_folder_that_may_not_be_searched_is_not_a_missing_one() -> None:
    # As a child, which gives up root (whom nothing keeps out), in a folder that everybody can get to.
    script = """
        import os, tempfile
        from pathlib import Path
        from authz_client.paths import PathRefused, resolve
        with tempfile.TemporaryDirectory() as folder:
            for name, mode in (("open", 0o755), ("closed", 0o600)):
                Path(folder, name).mkdir()
                Path(folder, name).chmod(mode)
            Path(folder).chmod(0o755)
            if os.geteuid() == 0:
                os.seteuid(65534)
            print(resolve("open/x", cwd=folder).kind)
            try:
                resolve("closed/x", cwd=folder)
            except PathRefused as refused:
                print(refused.code)
            if os.getuid() == 0:
                os.seteuid(0)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == ["missing", "path.unresolvable"], ran.stderr


def test_as_many_links_as_the_kernel_follows(work: Path) -> None:
    (work / "link0").symlink_to("a.txt")
    for number in range(1, MAX_LINKS + 1):
        (work / f"link{number}").symlink_to(f"link{number - 1}")
    longest = f"link{MAX_LINKS - 1}"
    assert at(work, longest).path == str(work / "a.txt")
    assert (work / longest).read_text() == "a"
    assert refused(work, f"link{MAX_LINKS}") == "path.loop"
    with pytest.raises(OSError, match="symbolic links"):
        (work / f"link{MAX_LINKS}").read_text()


def test_the_link_itself_for_what_acts_on_names(work: Path) -> None:
    found = at(work, "to_out", follow_last=False)
    assert (found.path, found.kind) == (str(work / "to_out"), Kind.LINK)
    assert is_identity_of(found, work / "to_out")
    # Links on the way are followed all the same, and so is one whose spelling asks for a directory.
    assert at(work, "sub/up/to_file", follow_last=False).path == str(work / "to_file")
    assert at(work, "to_out/", follow_last=False).path == str(work.parent / "out")


def test_home_is_what_the_caller_says(work: Path) -> None:
    home = str(work / "to_out")
    assert at(work, "~/secret", home=home).path == str(work.parent / "out" / "secret")
    assert at(work, "~", home=home).path == str(work.parent / "out")
    assert at(work, "./~", home=home).path == str(work / "~")


def test_a_file_uri_is_decoded_once(work: Path) -> None:
    (work / "a b%20").write_text("")
    assert at(work, f"file://{work}/a%20b%2520").path == str(work / "a b%20")
    assert at(work, f"FILE://localhost{work}/%2e%2e/out/secret").path == str(work.parent / "out" / "secret")
    assert at(work, f"file:{work}/to_file").path == str(work / "a.txt")


def test_kinds(work: Path) -> None:
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(work)  # the address of such a socket is short
        try:
            bound.bind("sock")
        finally:
            os.chdir(here)
        kinds = {name: at(work, name).kind for name in ("pipe", "sock", "a.txt", "sub", "/dev/null")}
    assert kinds == {
        "pipe": Kind.FIFO,
        "sock": Kind.SOCKET,
        "a.txt": Kind.FILE,
        "sub": Kind.DIRECTORY,
        "/dev/null": Kind.DEVICE,
    }


def test_hard_links_are_counted(work: Path) -> None:
    assert at(work, "a.txt").hard_links == 1
    (work / "again").hardlink_to(work.parent / "out" / "secret")
    found = at(work, "again")
    assert found.hard_links == 2
    assert is_identity_of(found, work.parent / "out" / "secret")


def test_a_name_that_is_not_utf8_resolves_and_cannot_be_claimed(work: Path) -> None:
    raw = os.fsencode(str(work)) + b"/caf\xe9"
    os.close(os.open(raw, os.O_CREAT | os.O_WRONLY))
    (work / "to_raw").symlink_to("caf\udce9")
    for path in ("caf\udce9", "to_raw"):
        found = at(work, path)
        assert os.fsencode(found.path) == raw
        with pytest.raises(PathRefused) as caught:
            found.claim()
        assert caught.value.code == "path.not_utf8"


@pytest.mark.parametrize("argument", ["cwd", "home"])
def test_directories_are_absolute(argument: str) -> None:
    with pytest.raises(ValueError, match=f"`{argument}` must be an absolute path"):
        resolve("a", **{"cwd": "/", argument: "work"})


# What a claim is to the service.


def test_a_claim_is_what_the_wire_takes(work: Path) -> None:
    for path in ("to_out/secret", "new/file"):
        found = at(work, path)
        body = {
            "subject": {"agent": "coder-1"},
            "tool": {"server": "fs", "name": "file_read"},
            "arguments": {"path": path},
            "context": {"cwd": str(work), "resolved": {"/path": found.claim()}},
        }
        claim = parse_decide(body).claims.resolved["/path"]
        assert (claim.path, claim.device, claim.inode) == (found.path, found.device, found.inode)


def test_a_claim_below_a_root_speaks_of_what_the_call_sees(work: Path) -> None:
    (work / "abs").symlink_to("/sub/deep")
    (work / "escape").symlink_to("../../../../etc/passwd")
    found = resolve("/abs/x", cwd="/", root=str(work))
    assert found.path == str(work / "sub/deep/x")
    assert found.claim()["path"] == "/sub/deep/x"
    assert resolve("escape", cwd="/sub/../", root=str(work)).claim()["path"] == "/etc/passwd"
    assert resolve("..", cwd="/", root=str(work)).claim()["path"] == "/"


@pytest.mark.parametrize("root", ["work", "/work/..", "/nowhere/at/all", "/etc/passwd", "/a\0b"])
def test_a_root_is_a_directory_without_detours(root: str) -> None:
    with pytest.raises(ValueError, match="`root`"):
        resolve("a", cwd="/", root=root)


NAMES = st.sampled_from(
    ["a.txt", "sub", "deep", "up", "to_out", "to_file", "chain", "secret", "..", ".", "", "new", "dangling"]
)


@given(names=st.lists(NAMES, min_size=1, max_size=10), absolute=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=400)
def test_it_is_where_the_kernel_goes(work: Path, names: list[str], absolute: bool) -> None:
    path = "/".join(names).lstrip("/") or "."
    spelled = f"{work}/{path}" if absolute else path
    try:
        kernel = os.stat(f"{work}/{path}")
    except FileNotFoundError:
        kernel = None
    except OSError:
        with pytest.raises(PathRefused):
            at(work, spelled)
        return
    try:
        found = at(work, spelled)
    except PathRefused:
        assert kernel is None
        return
    if kernel is not None:
        assert (found.device, found.inode) == (kernel.st_dev, kernel.st_ino)
    # Resolving what is resolved changes nothing, and the service finds nothing left to do in it.
    assert at(work, found.path) == found
    assert os.path.realpath(found.path) == found.path
    canonical = canonicalize("path", found.path, Base())
    assert isinstance(canonical, tuple)
    assert canonical[0].value == found.path


@pytest.mark.external
def test_a_bind_mount_shows_an_object_again(tmp_path: Path) -> None:
    """In a mount namespace of its own, so that nothing of it is left behind."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "again").mkdir()
    script = f"""
        from authz_client.paths import resolve
        found = resolve("again/file", cwd={str(tmp_path)!r})
        print(found.path)
        print(*found.aliases())
        print(*resolve("real/file", cwd={str(tmp_path)!r}).aliases())
    """
    command = f'mount --bind real again && exec "{sys.executable}" -c "$SCRIPT"'
    try:
        ran = subprocess.run(
            ["unshare", "--mount", "--map-root-user", "sh", "-c", command],
            cwd=tmp_path,
            env=os.environ | {"SCRIPT": textwrap.dedent(script)},
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no `unshare`")
    if "Operation not permitted" in ran.stderr or "ermission denied" in ran.stderr:
        pytest.skip("mounting is not permitted here")
    assert ran.returncode == 0, ran.stderr
    path, alias, back = ran.stdout.split("\n")[:3]
    assert path == str(tmp_path / "again" / "file")
    assert alias == str(tmp_path / "real" / "file")
    assert back == path
