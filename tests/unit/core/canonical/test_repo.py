"""Kind `repo`: spellings of one remote, what is refused, what is not understood, and what a push writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.canonical.repo import PushedRef, branch_name, canonicalize_repo, pushed_ref
from authz.model.resource import NotCanonical, Resource


def one(value: str) -> Resource:
    found = canonicalize_repo(value)
    assert not isinstance(found, NotCanonical), found
    return found[0]


@pytest.mark.parametrize(
    "spelled",
    [
        "git.example.com/team/app",
        "git@git.example.com:team/app.git",
        "git.example.com:team/app",
        "git@GIT.Example.com.:/team/app.git/",
        "ssh://git@git.example.com/team/app.git",
        "ssh://git@git.example.com:22/team/app",
        "git+ssh://git.example.com//team//app.git",
        "https://git.example.com/team/app.git",
        "HTTPS://git.example.com:443/team/app/",
        "https://git.example.com:0443/team/app",
        "http://git.example.com/te%61m/app",
        "git://git.example.com:9418/team/app.git",
    ],
)
def test_one_remote_is_one_repository(spelled: str) -> None:
    found = one(spelled)
    assert found.uri == "repo:git.example.com/team/app"
    assert one(found.value) == found
    assert [entity.cedar for entity in found.chain] == [
        'Repo::"git.example.com/team/app"',
        'Repo::"git.example.com/team"',
        'Repo::"git.example.com"',
        'Host::"git.example.com"',
        'Domain::"git.example.com"',
        'Domain::"example.com"',
        'Domain::"com"',
    ]


@pytest.mark.parametrize("host", ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org"])
def test_a_server_that_folds_case_has_one_name_for_a_repository(host: str) -> None:
    assert one(f"git@{host.title()}:Team/App.GIT") == one(f"ssh://git@{host}/team/app")
    assert one("https://git.example.com/Team/App").uri != one("https://git.example.com/team/app").uri


def test_a_branch_is_in_its_repository() -> None:
    found = one("git@git.example.com:team/app.git#refs/heads/main")
    assert found.uri == "repo:git.example.com/team/app#main"
    assert found.chain[0].cedar == 'Branch::"git.example.com/team/app#main"'
    assert found.chain[1].cedar == 'Repo::"git.example.com/team/app"'


def test_the_executor_keeps_the_transport() -> None:
    assert one("git@git.example.com:team/app.git").value == "ssh://git@git.example.com/team/app"
    branch = one("https://git.example.com:443/team/app.git#heads/main")
    assert branch.value == "https://git.example.com/team/app#main"
    assert one("git@Local:a/b").value == "ssh://git@local/a/b"


@pytest.mark.parametrize(
    ("spelled", "id_"),
    [
        ("ssh://git@git.example.com:2222/team/app", "git.example.com:2222/team/app"),
        ("https://[2001:DB8::1]/a/b.git", "[2001:db8::1]/a/b"),
        ("git@[2001:db8::1]:a/b", "[2001:db8::1]/a/b"),
        ("https://BÜCHER.example/a/b", "xn--bcher-kva.example/a/b"),
        ("https://0x7f.1/a/b", "127.0.0.1/a/b"),
        ("https://git.example.com/Team/App", "git.example.com/Team/App"),
        ("https://git.example.com/~ada/app", "git.example.com/~ada/app"),
    ],
)
def test_what_the_name_keeps(spelled: str, id_: str) -> None:
    assert one(spelled).chain[0].id == id_


@pytest.mark.parametrize(
    ("spelled", "code"),
    [
        ("", "repo.invalid"),
        ("-oProxyCommand=x", "repo.invalid"),
        ("--upload-pack=x", "repo.invalid"),
        ("ext::sh -c x", "repo.odd_character"),
        ("ext::sh", "repo.helper"),
        ("https::https://x.example/a", "repo.helper"),
        ("ftp://git.example.com/a", "repo.scheme"),
        ("https://user@git.example.com/a/b", "repo.userinfo"),
        ("https://user:pw@git.example.com/a/b", "repo.userinfo"),
        ("ssh://git:pw@git.example.com/a/b", "repo.userinfo"),
        ("ssh://-oProxyCommand=x/a", "repo.host_invalid"),
        ("https://git.example.com/", "repo.invalid"),
        ("https://git.example.com/.git", "repo.invalid"),
        ("https://git.example.com/a/app.git.git", "repo.invalid"),
        ("https://git.example.com/a/../b", "repo.dot_segment"),
        ("git@git.example.com:a/../../b", "repo.dot_segment"),
        ("https://git.example.com/a%2fb", "repo.invalid"),
        ("https://git.example.com/a%252fb", "repo.dot_segment"),
        ("https://git.example.com/a?x", "repo.query"),
        ("https://git.example.com/a\u0000b", "repo.control_character"),
        ("https://git.example.com/a\u200bb/c", "repo.odd_character"),
        ("https://git.example.com/a%E2%80%8Bb/c", "repo.odd_character"),
        ("https://git.example.com/a%C2%A0b/c", "repo.odd_character"),
        ("https://git.example.com:0/a", "repo.port"),
        ("https://git.example.com/a#a..b", "repo.ref"),
        ("https://git.example.com/a#-x", "repo.ref"),
        ("https://git.example.com/a#a\u00a0b", "repo.odd_character"),
        ("https://git.example.com/a#x.lock", "repo.ref"),
        ("https://git.example.com/a#refs/x", "repo.ref"),
        (f"https://git.example.com/{'a/' * 33}", "repo.too_deep"),
        ("https://git.example.com/" + "a" * 2048, "repo.too_long"),
    ],
)
def test_refused_by_name(spelled: str, code: str) -> None:
    found = canonicalize_repo(spelled)
    assert isinstance(found, NotCanonical)
    assert (found.code, found.understood) == (code, True)


@pytest.mark.parametrize(
    ("spelled", "code"),
    [
        *[
            (name, "repo.local")
            for name in ("origin", "../app", "./a", "~/x", "/srv/git/app.git", "a/b", ".")
        ],
        ("file:///srv/git/app.git", "repo.local"),
        *[
            (f"https://git.example.com/a#{ref}", "repo.pseudo_ref")
            for ref in ("", "HEAD", "@", "FETCH_HEAD", "refs/heads/HEAD")
        ],
    ],
)
def test_not_understood(spelled: str, code: str) -> None:
    found = canonicalize_repo(spelled)
    assert isinstance(found, NotCanonical)
    assert (found.code, found.understood) == (code, False)


@pytest.mark.parametrize(
    ("refspec", "expected"),
    [
        ("main", PushedRef(ref="main", deletes=False, forces=False, is_tree=False)),
        ("refs/heads/main", PushedRef(ref="main", deletes=False, forces=False, is_tree=False)),
        ("HEAD:main", PushedRef(ref="main", deletes=False, forces=False, is_tree=False)),
        ("HEAD~2:refs/heads/main", PushedRef(ref="main", deletes=False, forces=False, is_tree=False)),
        ("+feature:main", PushedRef(ref="main", deletes=False, forces=True, is_tree=False)),
        (":main", PushedRef(ref="main", deletes=True, forces=False, is_tree=False)),
        ("tags/v1", PushedRef(ref="refs/tags/v1", deletes=False, forces=False, is_tree=False)),
        ("refs/heads/*:refs/heads/*", PushedRef(ref="", deletes=False, forces=False, is_tree=True)),
        ("+refs/*", PushedRef(ref="", deletes=False, forces=True, is_tree=True)),
        (":", PushedRef(ref="", deletes=False, forces=False, is_tree=True)),
        ("+:", PushedRef(ref="", deletes=False, forces=True, is_tree=True)),
    ],
)
def test_what_a_push_writes(refspec: str, expected: PushedRef) -> None:
    assert pushed_ref(refspec) == expected


@pytest.mark.parametrize("refspec", ["HEAD", "@", "HEAD:", "+HEAD"])
def test_a_push_to_a_name_that_only_the_repository_knows(refspec: str) -> None:
    found = pushed_ref(refspec)
    assert isinstance(found, NotCanonical)
    assert not found.understood


@given(st.text(max_size=40))
def test_stable_and_total(text: str) -> None:
    for spelled in (
        text,
        f"https://git.example.com/{text}",
        f"git@git.example.com:{text}",
        f"x.example/a#{text}",
    ):
        found = canonicalize_repo(spelled)
        if not isinstance(found, NotCanonical):
            assert canonicalize_repo(found[0].value) == found


@given(st.text(alphabet="abcHED/.~^:@{}-+* ", max_size=12))
def test_branch_names_are_stable(text: str) -> None:
    name = branch_name(text)
    if not isinstance(name, NotCanonical):
        assert branch_name(name) == name
