"""Kind `repo`: `Branch` in `Repo` in the `Repo`s that are its folders (spec section 4).

One remote is one repository however it is spelled: `git@git.example.com:team/app.git`,
`ssh://git@git.example.com/team/app` and `https://git.example.com/team/app.git/` are
`Repo::"git.example.com/team/app"`. The account that `ssh` signs in with is no part of the name; a port is,
unless it is the default of its scheme. `Repo::"git.example.com/team"` holds everything beneath it by
component, and a repository is in the `Host` and the `Domain`s that serve it.

A branch is named after `#`: `…/app#main`. Its name is what `git push` would write: a short name is a
branch, `refs/tags/v1` is a tag, and what only the repository itself could resolve (`HEAD`, `@`) is none.
"""

import re
from dataclasses import dataclass, replace
from urllib.parse import unquote_to_bytes

from authz.core.canonical.host import KnownHost, parse_host
from authz.core.canonical.spelling import (
    JsonScalar,
    check_characters,
    has_invisible,
    has_odd_space,
    percent_encoded,
    wrong_type,
)
from authz.model.resource import AttributeValue, Entity, NotCanonical, Resource

MAX_REMOTE_CHARACTERS = 2048
MAX_SEGMENTS = 32

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
# gitremote-helpers(7): `<helper>::<address>` starts the program `git-remote-<helper>`.
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")
# git-clone(1): scp-like only where no slash stands before the first colon.
_SCP_LIKE = re.compile(r"(?:([^/@:\[\]]+)@)?(\[[0-9A-Fa-f:.]+\]|[^/:\[\]]+):(.*)", re.DOTALL)
_AUTHORITY = re.compile(r"(?:([^/@]*)@)?(\[[0-9A-Fa-f:.]+\]|[^/:@\[\]]*)(?::([0-9]{1,5})?)?")
_DEFAULT_PORTS = {"ssh": "22", "git+ssh": "22", "ssh+git": "22", "git": "9418", "http": "80", "https": "443"}
_FOLDING = frozenset(("github.com", "gitlab.com", "bitbucket.org", "codeberg.org"))
"""Servers to which `Team/App` and `team/app` are one repository."""
_IS_SERVER = re.compile(r"[.:]")
_NOT_IN_A_SEGMENT = frozenset("\\%?#")
_NAME_OF_ACCOUNT = re.compile(r"[A-Za-z0-9._-]{1,64}")

# git-check-ref-format(1), rules 1 to 10, for a name of one or more components.
_NOT_IN_A_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_PSEUDO_REF = re.compile(r"@|[A-Z_]*HEAD")

_LOCAL = NotCanonical(
    code="repo.local",
    message="the remote is a name or a path that only the repository itself can resolve, send its url",
    understood=False,
)
_HELPER_REFUSED = NotCanonical(
    code="repo.helper", message="the remote names a program to run (`helper::address`), send a url"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """Where a repository is: who serves it, and its path there."""

    host: KnownHost
    port: str
    """As digits, empty for the default of the scheme."""
    segments: tuple[str, ...]
    transport: str = ""
    """How the spelling reaches it: `ssh://git@`, `https://`; empty for the canonical name itself."""

    @property
    def spelled(self) -> str:
        """What goes back to the executor: the same transport, the canonical name."""
        return f"{self.transport}{'/'.join((self.server, *self.segments))}"

    @property
    def server(self) -> str:
        """The first component of the id."""
        return f"{self.host.in_url}:{self.port}" if self.port else self.host.in_url


def canonicalize_repo(value: JsonScalar) -> tuple[Resource, ...] | NotCanonical:
    """The repository that `value` names, or its branch where a `#name` follows."""
    if not isinstance(value, str):
        return wrong_type("repo")
    if len(value) > MAX_REMOTE_CHARACTERS:
        return _refused("too_long", f"the remote is over {MAX_REMOTE_CHARACTERS} characters")
    if refused := check_characters("repo", value):
        return refused
    if has_invisible(value) or has_odd_space(value) or " " in value:
        return _refused("odd_character", "the remote holds white space or a character that nobody can see")
    text, mark, branch = value.partition("#")
    remote = parse_remote(text)
    if isinstance(remote, NotCanonical):
        return remote
    if not mark:
        return (repo_resource(remote, None),)
    ref = branch_name(branch)
    return ref if isinstance(ref, NotCanonical) else (repo_resource(remote, ref),)


def repo_resource(remote: Remote, ref: str | None) -> Resource:
    """The repository, or what `ref` (see `branch_name`) names in it."""
    path = (remote.server, *remote.segments)
    where: dict[str, AttributeValue] = {"host": remote.host.id, "class": remote.host.attributes["class"]}
    folders = tuple(
        Entity(type="Repo", id="/".join(path[:end]), attributes=where) for end in range(len(path), 0, -1)
    )
    name = folders[0].id
    chain = (*folders, *remote.host.chain)
    uri = f"repo:{percent_encoded(name)}"
    if ref is None:
        return Resource(kind="repo", uri=uri, value=remote.spelled, chain=chain)
    branch = Entity(type="Branch", id=f"{name}#{ref}", attributes={"name": ref, **where})
    return Resource(
        kind="repo",
        uri=f"{uri}#{percent_encoded(ref)}",
        value=f"{remote.spelled}#{ref}",
        chain=(branch, *chain),
    )


def parse_remote(text: str) -> Remote | NotCanonical:
    """The repository that `text`, without a branch, names."""
    if not text or text.startswith("-"):
        return _refused("invalid", "the remote is empty or begins with `-`, send its url")
    if _HELPER.match(text):
        return _HELPER_REFUSED
    if found := _SCHEME.fullmatch(text):
        return _from_url(found[1].lower(), found[2])
    if found := _SCP_LIKE.fullmatch(text):
        return _from_parts("ssh", found[1], found[2], "", found[3])
    # The canonical form itself: `git.example.com/team/app`. A first component without a dot, a port or
    # brackets is a folder; so is whatever begins with `.` or `~`.
    server, slash, path = text.partition("/")
    if slash and re.fullmatch(r"[^.~][^@]*[.:\]][^@]*", server):
        authority = _AUTHORITY.fullmatch(server)
        if authority is not None and authority[1] is None:
            named = _from_parts("", None, authority[2], authority[3] or "", path)
            return named if isinstance(named, NotCanonical) or _IS_SERVER.search(named.server) else _LOCAL
    return _LOCAL


def _from_url(scheme: str, rest: str) -> Remote | NotCanonical:
    if scheme == "file":
        return _LOCAL
    if scheme not in _DEFAULT_PORTS:
        return _refused("scheme", "the scheme of the remote is not ssh, https, http or git")
    authority, _, path = rest.partition("/")
    found = _AUTHORITY.fullmatch(authority)
    if found is None or not found[2]:
        return _refused("invalid", "the remote is not a valid url")
    if scheme in ("http", "https", "git") and found[1] is not None:
        return _refused("userinfo", "the remote holds a user name or password, remove it")
    if "?" in path:
        return _refused("query", "the remote holds a query, which no repository has")
    port = found[3] or ""
    plain = _decoded(path)
    if isinstance(plain, NotCanonical):
        return plain
    port = "" if port.lstrip("0") == _DEFAULT_PORTS[scheme] else port
    return _from_parts(scheme, found[1], found[2], port, plain)


def _decoded(path: str) -> str | NotCanonical:
    """`path` percent-decoded once, where that is text and hides no separator."""
    if "%" not in path:
        return path
    if re.search(r"%(?:2[fF]|5[cC]|00)|%(?![0-9A-Fa-f]{2})", path):
        return _refused("invalid", "the path of the remote holds an encoded separator")
    try:
        return unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return _refused("invalid", "the path of the remote is not UTF-8")


def _from_parts(scheme: str, account: str | None, host: str, port: str, path: str) -> Remote | NotCanonical:
    if account is not None and not _NAME_OF_ACCOUNT.fullmatch(account):
        # Also `user:password@`: a secret has no place in a name.
        return _refused("userinfo", "the account of the remote is no plain name, remove it")
    known = parse_host(host.strip("[]"))
    if isinstance(known, NotCanonical):
        return NotCanonical(code=known.code.replace("host.", "repo.host_"), message=known.message)
    if port and not 0 < int(port) < 2**16:
        return _refused("port", "the port is not between 1 and 65535")
    if known.id in _FOLDING:
        path = path.lower()
    segments = [part for part in path.split("/") if part]
    if segments:
        segments[-1] = segments[-1].removesuffix(".git")
    if segments and segments[-1].endswith(".git"):
        return _refused("invalid", "the name of the repository ends in `.git` twice, write it once")
    if not segments or not all(segments):
        return _refused("invalid", "the remote names no repository on its host")
    if len(segments) > MAX_SEGMENTS:
        return _refused("too_deep", f"the path of the remote has over {MAX_SEGMENTS} segments")
    if any(part in (".", "..") or set(part) & _NOT_IN_A_SEGMENT for part in segments):
        return _refused("dot_segment", "the path of the remote holds `.`, `..`, `\\`, `?` or `%`, resolve it")
    if _is_odd("".join(segments)):
        return _refused("odd_character", "the path of the remote holds a character that names do not have")
    transport = f"{scheme}://{f'{account}@' if account else ''}" if scheme else ""
    return Remote(host=known, port=port.lstrip("0"), segments=tuple(segments), transport=transport)


def _is_odd(text: str) -> bool:
    return bool(check_characters("repo", text)) or has_invisible(text) or has_odd_space(text) or " " in text


def branch_name(text: str) -> str | NotCanonical:
    """The one name of what a push of `text` writes: `main`, or `refs/tags/v1` for what is no branch.

    `main`, `heads/main` and `refs/heads/main` are one branch. What the repository alone could resolve is not
    understood; what git-check-ref-format(1) refuses is refused.
    """
    full = f"refs/{text}" if text.startswith(("heads/", "tags/")) else text
    short = full.removeprefix("refs/heads/")
    # A branch that is called `heads/x` has no short name: that one is the branch `x`.
    name = full if short.startswith(("refs/", "heads/", "tags/")) else short
    if not name or _PSEUDO_REF.fullmatch(name):
        return NotCanonical(
            code="repo.pseudo_ref",
            message="the branch is one that only the repository can resolve, name it",
            understood=False,
        )
    parts = name.split("/")
    wrong = (
        name.startswith("-")
        or name.endswith((".", "/"))
        or _NOT_IN_A_REF.search(name) is not None
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
        or has_invisible(name)
        or has_odd_space(name)
    )
    if wrong:
        return _refused("ref", "the branch is no name that git takes, see git-check-ref-format")
    if name.startswith("refs/") and len(parts) < 3:
        return _refused("ref", "a name under `refs/` needs a kind and a name")
    return name


def named_repo(text: str) -> Resource | NotCanonical:
    """What a canonical name means: `git.example.com:2222/team/app`, with `#main` a branch of it.

    As a remote, `host:2222/x` is a path `2222/x` on `host` (git-clone(1)); in a name it is a port.
    """
    name, mark, branch = text.partition("#")
    server, slash, path = name.partition("/")
    authority = _AUTHORITY.fullmatch(server)
    if authority is None or not authority[2] or authority[1] is not None:
        return _refused("invalid", "the name of a repository is `host/path`")
    # A server alone holds every repository on it; as a remote it names none.
    remote = _from_parts("", None, authority[2], authority[3] or "", path if slash else "x")
    if isinstance(remote, NotCanonical):
        return remote
    if not slash:
        remote = replace(remote, segments=())
    if not mark:
        return repo_resource(remote, None)
    ref = branch_name(branch)
    return ref if isinstance(ref, NotCanonical) else repo_resource(remote, ref)


def repo_id(text: str) -> str | NotCanonical:
    """The id of a `Repo` as rules write it: `git.example.com/team/app`, a folder of them, or a server."""
    found = named_repo(text)
    if isinstance(found, NotCanonical) or found.entity.type == "Repo":
        return found if isinstance(found, NotCanonical) else found.entity.id
    return _refused("ref", "a `Repo` has no branch, write a `Branch`")


def branch_id(text: str) -> str | NotCanonical:
    """The id of a `Branch` as rules write it: `git.example.com/team/app#main`."""
    found = named_repo(text)
    if isinstance(found, NotCanonical) or found.entity.type == "Branch":
        return found if isinstance(found, NotCanonical) else found.entity.id
    return _refused("ref", "a `Branch` is written `repository#name`")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedRef:
    """What one refspec of a push does to the remote."""

    ref: str
    """See `branch_name`. Empty when it stands for every ref (`is_tree`)."""
    deletes: bool
    forces: bool
    is_tree: bool
    """It names many refs: a pattern."""


def pushed_ref(refspec: str) -> PushedRef | NotCanonical:
    """What `refspec` of `git push` writes: `main`, `HEAD:main`, `+main`, `:main`, `refs/*:refs/*`.

    Source: git-push(1), `<refspec>`. Without a destination the source's name is written.
    """
    forces = refspec.startswith("+")
    source, colon, destination = refspec.removeprefix("+").partition(":")
    if refspec.removeprefix("+") == ":":
        # "Matching" branches: all that both sides have.
        return PushedRef(ref="", deletes=False, forces=forces, is_tree=True)
    deletes = bool(colon) and not source
    written = destination if colon else source
    if ":" in written:
        return _refused("ref", "the refspec holds more than one `:`")
    if "*" in written:
        return PushedRef(ref="", deletes=deletes, forces=forces, is_tree=True)
    ref = branch_name(written)
    if isinstance(ref, NotCanonical):
        return ref
    return PushedRef(ref=ref, deletes=deletes, forces=forces, is_tree=False)


def _refused(code: str, message: str) -> NotCanonical:
    return NotCanonical(code=f"repo.{code}", message=message)
