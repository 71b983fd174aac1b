"""Kind `path`: one spelling for one file, and containment by component."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.canonical import canonical_literal, canonicalize
from authz.model.resource import Base, NotCanonical, Volume
from tests.support.canonical import WORKSPACE, ancestors, is_in, refusal, resource

FOLDING = Base(cwd="/Workspace", volume=Volume(case_sensitive=False, normalization="nfc"))
COMPOSING = Base(cwd="/w", volume=Volume(normalization="nfc"))


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("/workspace/a", "/workspace/a"),
        ("a", "/workspace/a"),
        ("./a", "/workspace/a"),
        ("a/", "/workspace/a"),
        ("b/../a", "/workspace/a"),
        ("/workspace//./a", "/workspace/a"),
        ("//workspace/a", "/workspace/a"),
        (".", "/workspace"),
        ("..", "/"),
        ("../../../../etc/passwd", "/etc/passwd"),
        ("/..", "/"),
        ("...", "/workspace/..."),
        ("/", "/"),
        ("~", "/home/user-1"),
        ("~/secret", "/home/user-1/secret"),
        ("~/../user-2/x", "/home/user-2/x"),
        ("./~root", "/workspace/~root"),
        ("a~", "/workspace/a~"),
        ("%2e%2e/etc", "/workspace/%2e%2e/etc"),
        ("a%2fb", "/workspace/a%2fb"),
        ("file:///workspace/a", "/workspace/a"),
        ("FILE://localhost/workspace/a", "/workspace/a"),
        ("file:/workspace/a%20b", "/workspace/a b"),
        ("file:///workspace/%2e%2e/etc/shadow", "/etc/shadow"),
        ("file:///workspace/%252e%252e/x", "/workspace/%2e%2e/x"),
        ("a\u202eb", "/workspace/a\u202eb"),
        ("a\u200db", "/workspace/a\u200db"),
    ],
)
def test_one_file_has_one_spelling(spelled: str, canonical: str) -> None:
    assert resource("path", spelled).value == canonical


@pytest.mark.parametrize(
    ("spelled", "code"),
    [
        ("", "path.empty"),
        ("a\0b", "path.control_character"),
        ("a\nb", "path.control_character"),
        ("a\x85b", "path.control_character"),
        ("a\x7f", "path.control_character"),
        ("a\ud800", "path.surrogate"),
        ("file:///a%00b", "path.control_character"),
        ("file:///a%2fb", "path.encoded_separator"),
        ("file:///a%2Fb", "path.encoded_separator"),
        ("file:///%ff", "path.encoding"),
        ("file:///a%zz", "path.file_uri"),
        ("file://server/a", "path.file_uri"),
        ("file://127.0.0.1/a", "path.file_uri"),
        ("file:////etc/passwd", "path.file_uri"),
        ("file:a", "path.file_uri"),
        ("file:///a?b", "path.file_uri"),
        ("file:///a#b", "path.file_uri"),
        ("~root/x", "path.home_of_user"),
        ("~+", "path.home_of_user"),
        ("a" * 256, "path.component_too_long"),
        ("é" * 128, "path.component_too_long"),
        ("/" + "abcdefgh/" * 500, "path.too_long"),
        ("/" + "a/" * 300, "path.too_long"),
    ],
)
def test_what_no_file_is_called_is_refused(spelled: str, code: str) -> None:
    refused = refusal("path", spelled)
    assert (refused.code, refused.understood) == (code, True)


@pytest.mark.parametrize("value", [None, True, 1, 1.5])
def test_only_strings_are_paths(value: bool | float | None) -> None:
    assert refusal("path", value).code == "path.type"


def test_a_relative_path_needs_a_directory() -> None:
    for cwd in (None, "", "workspace", "."):
        refused = refusal("path", "a", Base(cwd=cwd))
        assert (refused.code, refused.understood) == ("path.relative_without_directory", False)
    assert resource("path", "/a", Base()).value == "/a"


def test_home_is_declared_or_refused() -> None:
    for home in (None, "", "home"):
        assert refusal("path", "~/x", Base(cwd="/w", home=home)).code == "path.home_unknown"
    assert resource("path", "~", Base(home="/home/u/")).value == "/home/u"


def test_a_declared_directory_is_held_to_the_same_rules() -> None:
    assert refusal("path", "a", Base(cwd="/w\n")).code == "path.control_character"
    assert refusal("path", "a", Base(cwd="/C:/w")).code == "path.windows"
    assert resource("path", "../a", Base(cwd="/w/./x//")).value == "/w/a"


@pytest.mark.parametrize(
    "spelled",
    [
        "C:\\ws\\file.txt:payload.exe",
        "C:\\",
        "C:/ws",
        "c:",
        "c:ws",
        "/C:/ws",
        "a/../c:x",
        "./c:",
        "/w/d:/x",
        "file:///C:/ws",
        "file:///c|/ws",
        "file:\\\\server\\x",
        "\\\\localhost\\C$\\Windows\\x.dll",
        "\\\\?\\C:\\x",
        "\\\\.\\pipe\\x",
        "//?/C:/x",
        "..\\..\\x",
        "a\\b",
        "file:///workspace/..%5cx",
        "file.txt::$DATA",
        "dir:$I30:$INDEX_ALLOCATION",
        "NUL",
        "a/nul/b",
        "com1.",
        "CON ",
        "aux:",
        "lpt\u00b3",
        "conin$",
        "PROGRA~1",
        "/workspace/GIT~1/config",
        "LONGF~12.TXT",
    ],
)
def test_windows_spellings_are_not_files_of_the_workspace(spelled: str) -> None:
    refused = refusal("path", spelled)
    assert (refused.code, refused.understood) == ("path.windows", False)


@pytest.mark.parametrize(
    "name",
    [
        "12:30.log",
        "a/b:c",
        "report: final.txt",
        "notes~1.txt",
        "file.txt.~1~",
        "backup~2",
        "VERYLONGNAME~1",
        "README~",
        "aux.c",
        "con.txt",
        "console",
        "com0",
        "com10",
        "dollar$",
        "null",
        "c",
        "#a",
        "a b",
        "-rf",
        "*.py",
        ".env",
        "naïve",
    ],
)
def test_ordinary_linux_names_stay_ordinary(name: str) -> None:
    assert resource("path", name).value == f"/workspace/{name}"


def test_a_uri_of_another_scheme_is_not_a_path() -> None:
    assert not refusal("path", "https://example.com/a").understood
    assert not refusal("path", "smb://server/share").understood


def test_the_chain_has_the_directory_of_the_same_path() -> None:
    found = resource("path", "/w/a")
    assert ancestors(found) == ['File::"/w/a"', 'Directory::"/w/a"', 'Directory::"/w"', 'Directory::"/"']
    assert ancestors(resource("path", "/")) == ['File::"/"', 'Directory::"/"']


@pytest.mark.parametrize(
    ("path", "name", "extension"),
    [
        ("/a/b.TXT", "b.TXT", "txt"),
        ("/a/b", "b", ""),
        ("/a.d/b", "b", ""),
        ("/.env", ".env", "env"),
        ("/", "", ""),
    ],
)
def test_attributes_of_a_file(path: str, name: str, extension: str) -> None:
    found = resource("path", path).entity.attributes
    assert (found["name"], found["extension"]) == (name, extension)
    assert all(not entity.attributes for entity in resource("path", path).chain[1:])


def test_a_file_knows_the_folded_names_on_its_way() -> None:
    """A rule on a name holds at any depth and in any letter case."""
    assert resource("path", "/w/App/.Secrets/./x/../KEY").entity.attributes["names"] == (
        "w",
        "app",
        ".secrets",
        "key",
    )
    assert resource("path", "/a/A/a").entity.attributes["names"] == ("a",)
    assert resource("path", "/").entity.attributes["names"] == ()


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/srv/work", "file:///srv/work"),
        ("/", "file:///"),
        ("/a b%c?#", "file:///a%20b%25c%3F%23"),
        ("/é", "file:///%C3%A9"),
        ("/c|", "file:///c%7C"),
        ("/a:@!$&'()*+,;=~-._", "file:///a:@!$&'()*+,;=~-._"),
    ],
)
def test_uri(path: str, uri: str) -> None:
    assert resource("path", path).uri == uri
    assert resource("path", uri).value == path


def test_a_volume_that_folds_case_has_one_id_for_all_spellings() -> None:
    spelled = resource("path", ".Agent/MCP.json", FOLDING)
    plain = resource("path", "/workspace/.agent/mcp.json", FOLDING)
    assert spelled.chain == plain.chain
    assert spelled.uri == plain.uri == "file:///workspace/.agent/mcp.json"
    assert spelled.value == "/Workspace/.Agent/MCP.json"
    assert is_in(spelled, "Directory", "/workspace/.agent")
    assert refusal("path", "notes~1.txt", FOLDING).code == "path.windows"


def test_a_volume_that_composes_has_one_id_for_both_forms() -> None:
    assert resource("path", "cafe\u0301", COMPOSING) == resource("path", "caf\u00e9", COMPOSING)
    assert resource("path", "cafe\u0301") != resource("path", "caf\u00e9")


def test_a_sibling_with_the_same_prefix_is_outside() -> None:
    assert not is_in(resource("path", "/workspace-secret/loot.md"), "Directory", "/workspace")
    assert is_in(resource("path", "/workspace"), "Directory", "/workspace")


@pytest.mark.parametrize(
    "spelled", ["audit/message.log", "./audit/message.log", "/workspace/audit/message.log"]
)
def test_relative_paths_are_relative_to_the_request(spelled: str) -> None:
    assert is_in(resource("path", spelled), "Directory", "/workspace")


def test_home_is_outside_the_workspace() -> None:
    found = resource("path", "~/secret")
    assert not is_in(found, "Directory", "/workspace")
    assert is_in(found, "Directory", "/home/user-1")


def test_staging_what_lies_beside_the_repository_is_outside() -> None:
    assert not is_in(resource("path", "../.kube/config"), "Directory", "/workspace")


@pytest.mark.parametrize(
    "spelled",
    [
        "/proc/self/root/etc/shadow",
        "/proc/self/root",
        "/proc/thread-self/root/x",
        "/proc/1/cwd/.env",
        "/proc/4711/fd/3",
        "/proc/self/exe",
        "/proc/self/task/12/root/x",
        "/proc/self/map_files/1-2",
        "/proc//self/./root/x",
        "/x/../proc/self/cwd",
        "../proc/self/cwd/x",
        "file:///proc/self/root/x",
        "file:///proc/%73elf/root/x",
        "/dev/fd/3",
        "/dev/fd",
        "/dev/stdin",
        "/dev/stdout",
        "/dev/stderr",
        "../dev/fd/0",
    ],
)
def test_a_way_through_a_process_is_no_place(spelled: str) -> None:
    refused = refusal("path", spelled)
    assert (refused.code, refused.understood) == ("path.process_alias", False)


@pytest.mark.parametrize(
    "path",
    [
        "/proc/cpuinfo",
        "/proc/self/environ",
        "/proc/1/mem",
        "/proc/self",
        "/proc/self/rootkit",
        "/proc/sys/kernel/core_pattern",
        "/proc/x1/root",
        "/PROC/self/root",
        "/dev/null",
        "/dev/stdinx",
        "/dev/fdx",
        "/workspace/proc/self/root",
        "/workspace/dev/fd/3",
    ],
)
def test_other_files_of_the_kernel_stay_ordinary(path: str) -> None:
    assert resource("path", path).value == path


def test_a_way_through_a_process_is_found_in_any_case_where_the_volume_folds_it() -> None:
    assert refusal("path", "/PROC/Self/Root/x", FOLDING).code == "path.process_alias"
    assert refusal("path", "/proc/\u017felf/root", FOLDING).code == "path.process_alias"
    assert refusal("path", "/Dev/StdIn", FOLDING).code == "path.process_alias"
    assert isinstance(canonical_literal("Directory", "/proc/self/root"), NotCanonical)


@pytest.mark.parametrize(
    "name",
    [
        ".env.",
        ".env ",
        ".env. .",
        "secrets./x",
        "secrets /x",
        "...",
        ".git\u200c/config",
        "\ufeff.git/config",
        ".e\u200dnv",
        ".e\u00adnv",
        ".env\ufe0f",
        ".env\uf029",
        ".env\U000e0041",
    ],
)
def test_a_volume_that_folds_case_may_take_one_name_for_another(name: str) -> None:
    """HFS+, NTFS and SMB leave out some characters: `.env.` and `.git` with a joiner are other files."""
    refused = refusal("path", name, FOLDING)
    assert (refused.code, refused.understood) == ("path.ambiguous_name", False)
    assert resource("path", name).value == f"/workspace/{name}"


@pytest.mark.parametrize("name", [".env", "a.b", "a b", " a", "a\u202fPM.png", "ä", "."])
def test_ordinary_names_are_ordinary_on_such_a_volume(name: str) -> None:
    assert resource("path", name, FOLDING)


# Properties.

NAMES = st.text(st.characters(exclude_characters="/"), min_size=1, max_size=12)
PARTS = st.one_of(
    st.sampled_from(["", ".", "..", "a", "workspace", "~", "C:", "a~1", "aux", "%2e%2e"]), NAMES
)
SPELLINGS = st.builds(
    lambda lead, parts: lead + "/".join(parts),
    st.sampled_from(["", "/", "//", "./", "../", "~/", "file://", "file:///", "\\"]),
    st.lists(PARTS, max_size=6),
)
VOLUMES = st.builds(Volume, case_sensitive=st.booleans(), normalization=st.sampled_from(["none", "nfc"]))
PLAIN = st.text(st.sampled_from("abcXYZ019_-. é"), min_size=1, max_size=8).filter(
    lambda name: name not in {".", ".."}
)


@given(SPELLINGS, VOLUMES)
def test_canonical_is_stable(spelled: str, volume: Volume) -> None:
    base = Base(cwd="/workspace", home="/home/u", volume=volume)
    first = canonicalize("path", spelled, base)
    if isinstance(first, NotCanonical):
        return
    assert canonicalize("path", first[0].value, Base(volume=volume)) == first
    assert canonicalize("path", first[0].value, Base(cwd="/elsewhere", volume=volume)) == first
    from_uri = canonicalize("path", first[0].uri, Base(volume=volume))
    assert not isinstance(from_uri, NotCanonical)
    assert from_uri[0].chain == first[0].chain


@given(SPELLINGS)
def test_canonical_is_normal_and_contained_by_component(spelled: str) -> None:
    result = canonicalize("path", spelled, WORKSPACE)
    if isinstance(result, NotCanonical):
        return
    path = result[0].value
    assert path.startswith("/")
    assert not path.startswith("//")
    assert posixpath.normpath(path) == path
    inside = path == "/workspace" or path.startswith("/workspace/")
    assert is_in(result[0], "Directory", "/workspace") == inside


@given(st.lists(PLAIN, min_size=1, max_size=5), st.data())
def test_spelling_does_not_matter(names: list[str], data: st.DataObject) -> None:
    canonical = resource("path", "/workspace/" + "/".join(names))
    detours = [data.draw(st.sampled_from(["", "./", "/", "x/../", ".//x/y/../../"])) + name for name in names]
    spelled = data.draw(
        st.sampled_from(["", "./", "/workspace/", "//workspace/", "../workspace/"])
    ) + "/".join(detour.lstrip("/") if at == 0 else detour for at, detour in enumerate(detours))
    assert resource("path", spelled) == canonical


@given(st.text(max_size=40))
def test_agrees_with_posix_on_where_a_path_leads(text: str) -> None:
    result = canonicalize("path", "/w/" + text, Base())
    if isinstance(result, NotCanonical):
        return
    assert result[0].value == posixpath.normpath("/w/" + text)


@given(st.text(max_size=20).map(lambda text: "/w/" + text))
def test_case_does_not_matter_where_the_volume_folds_it(path: str) -> None:
    results = [
        canonicalize("path", spelled, FOLDING)
        for spelled in (path, path.upper(), path.casefold(), path.lower())
    ]
    keys = {
        result[0].uri
        for result, spelled in zip(results, (path, path.upper(), path.casefold(), path.lower()), strict=True)
        if not isinstance(result, NotCanonical) and spelled.casefold() == path.casefold()
    }
    assert len(keys) <= 1


@given(
    st.sampled_from(["root", "cwd", "fd", "exe", "task"]),
    st.one_of(st.sampled_from(["self", "thread-self"]), st.integers(0, 2**22).map(str)),
    SPELLINGS,
    VOLUMES,
)
def test_no_path_leads_through_a_process(link: str, process: str, rest: str, volume: Volume) -> None:
    for spelled in (f"/proc/{process}/{link}/{rest}", f"/dev/fd/{rest}", rest):
        result = canonicalize("path", spelled, Base(cwd="/proc/self", volume=volume))
        if not isinstance(result, NotCanonical):
            parts = [*result[0].entity.id.split("/"), "", "", ""]
            assert parts[1:3] not in (["dev", "fd"], ["dev", "stdin"])
            is_process = parts[2] in ("self", "thread-self") or parts[2].isdecimal()
            assert not (
                parts[1] == "proc" and is_process and parts[3] in ("root", "cwd", "fd", "exe", "task")
            )


@given(
    st.text("abc.", min_size=1, max_size=5),
    st.characters(categories=["Cf", "Co"]) | st.sampled_from(". \u034f\u3164\ufe00\uffa0\U000e01ef"),
    st.text("abc/", max_size=4),
)
def test_on_a_folding_volume_no_name_looks_like_another(name: str, ignored: str, rest: str) -> None:
    for spelled in (f"/w/{name}{ignored}/{rest}", f"/w/{ignored}{name}{rest}"):
        result = canonicalize("path", spelled, FOLDING)
        if isinstance(result, NotCanonical):
            continue
        # What is left of a dot or a space stands at the beginning or inside, where no volume drops it.
        assert ignored in ". "
        assert not any(part.endswith((".", " ")) for part in result[0].value.split("/"))
