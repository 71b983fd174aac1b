"""How far a yes for a session reaches: what was shown and what lies beneath it, and nobody else."""

from dataclasses import replace
from typing import Any

import pytest

from authz.core.approval_match import CallNow, Matched, Mismatch, covers, match_grant, mismatch
from authz.core.canonical import canonicalize
from authz.model.approval import Factor, Reach
from authz.model.approval_request import Consumption, Grant
from authz.model.call import Call
from authz.model.resource import Authority, Base, ResolvedPath, Scope, Verb
from tests.support.approvals import (
    ASKS,
    GRACE,
    PERMIT,
    SESSION,
    STAFF,
    TTL_SECONDS,
    USER,
    asked,
    granted,
    provenance,
    rule,
    times,
    wants,
)
from tests.support.world import IDS, NOW_MS, call, caller_of, source, world

READ = call("fs/file_read", path="/workspace/a", provenance=USER)
PAY = call("bank/transfer", to="ops", amount=1, provenance=USER)
ENDS = NOW_MS + TTL_SECONDS * 1000


def read(path: str, **more: Any) -> Call:
    return call("fs/file_read", **{"path": path, "provenance": USER, **more})


def grant_for(made: Call, rules: str = ASKS, request_id: str = "ap-1", **more: Any) -> Grant:
    return granted(asked(made, rules, request_id=request_id), GRACE, **more)


def why(made: Call, grant: Grant, rules: str = ASKS, **known: Any) -> Mismatch | None:
    """What keeps the grant from permitting the call; that it permits is seen through `match_grant`."""
    now = wants(made, rules, **known)
    found = mismatch(now, grant)
    assert isinstance(match_grant(now, [grant], []), Matched) == (found is None)
    return found


@pytest.mark.parametrize(
    "path", ["/workspace/d", "/workspace/d/a", "/workspace/d/e/f", "/workspace/x/../d/a"]
)
def test_a_sessions_yes_permits_what_lies_beneath_what_was_shown(path: str) -> None:
    grant = grant_for(read("/workspace/d"), scope=SESSION)
    now = wants(read(path))
    match = match_grant(now, [grant], [])

    assert isinstance(match, Matched)
    # Of the call that is made, which need not be the one that was shown.
    assert match.consumption == Consumption(
        request_id="ap-1", fingerprint=now.asked.fingerprint, expected_uses_left=None
    )


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (read("/workspace/dd"), Mismatch.REACH),
        (read("/workspace"), Mismatch.REACH),
        (read("/workspace/d/../e"), Mismatch.REACH),
        (read("/workspace/D/a"), Mismatch.REACH),
        (read("/workspace/d/a", session="s-2"), Mismatch.REQUESTER),
        (read("/workspace/d/a", session=None), Mismatch.REQUESTER),
        (read("/workspace/d/a", user="grace"), Mismatch.REQUESTER),
        (read("/workspace/d/a", user=None), Mismatch.REQUESTER),
        (read("/workspace/d/a", agent="coder-2"), Mismatch.REQUESTER),
        (read("/workspace/d/a", parent_agent="coder-1"), Mismatch.REQUESTER),
        (read("/workspace/d/a", ids=replace(IDS, parent_trace="t-0")), Mismatch.REQUESTER),
        (read("/workspace/d/a", provenance=provenance({"/path": source("web")})), Mismatch.PROVENANCE),
    ],
)
def test_a_sessions_yes_permits_nothing_else(made: Call, reason: Mismatch) -> None:
    """AP1, AP3, AP8: never a child's, of whatever name, and never beside what was shown."""
    assert why(made, grant_for(read("/workspace/d"), scope=SESSION)) is reason


def test_a_sessions_yes_is_of_the_credential_and_the_chain_that_asked() -> None:
    bundle = world(ASKS)
    grant = grant_for(READ, scope=SESSION)

    assert why(READ, grant, caller=replace(caller_of(bundle), key_id="key-2")) is Mismatch.REQUESTER
    assert why(READ, grant, delegated=True) is Mismatch.REQUESTER
    now = wants(READ)
    handed_on = replace(now.asked.requester, chain=("coder-1", "coder-1"))
    assert mismatch(replace(now, asked=replace(now.asked, requester=handed_on)), grant) is Mismatch.REQUESTER


def test_a_session_without_a_name_is_nobodys() -> None:
    """None is offered for one; if there were one, it would permit nothing."""
    grant = grant_for(READ, scope=SESSION)
    nameless = replace(grant.asked.requester, session=None)
    kept = replace(grant, asked=replace(grant.asked, requester=nameless))

    assert why(read("/workspace/a", session=None, provenance=USER), kept) is Mismatch.REQUESTER


def test_every_access_lies_in_what_was_shown() -> None:
    def copy(origin: str, target: str) -> Call:
        return call("fs/file_copy", {"from": origin, "to": target}, provenance=USER)

    grant = grant_for(copy("/workspace/in", "/workspace/out"), scope=SESSION)

    assert why(copy("/workspace/in/a", "/workspace/out/a"), grant) is None
    assert why(copy("/workspace/in/a", "/workspace/in/b"), grant) is Mismatch.REACH
    assert why(copy("/workspace/out/a", "/workspace/out/b"), grant) is Mismatch.REACH
    assert why(copy("/etc/passwd", "/workspace/out/a"), grant) is Mismatch.REACH


def test_a_tree_is_covered_only_where_a_tree_was_shown() -> None:
    """AP8: never wider than shown."""

    def remove(path: str, recursive: bool) -> Call:
        return call("fs/file_remove", path=path, recursive=recursive, provenance=USER)

    one = grant_for(remove("/workspace/d", recursive=False), scope=SESSION)
    tree = grant_for(remove("/workspace/d", recursive=True), scope=SESSION)

    assert why(remove("/workspace/d/a", recursive=False), one) is None
    assert why(remove("/workspace/d", recursive=True), one) is Mismatch.REACH
    assert why(remove("/workspace/d/a", recursive=True), one) is Mismatch.REACH
    assert why(remove("/workspace/d/a", recursive=True), tree) is None
    assert why(remove("/workspace/d/a", recursive=False), tree) is None
    assert why(remove("/workspace", recursive=True), tree) is Mismatch.REACH


def test_where_a_path_really_lies_has_to_be_said_again() -> None:
    def real(path: str, lies: str | None) -> Call:
        resolved = {"/path": ResolvedPath(path=lies)} if lies is not None else {}
        return read(path, resolved=resolved)

    grant = grant_for(real("/workspace/d", "/workspace/d"), scope=SESSION)

    assert why(real("/workspace/d/a", "/workspace/d/a"), grant) is None
    assert why(real("/workspace/d/a", None), grant) is Mismatch.REACH
    assert why(real("/workspace/d/a", "/etc/passwd"), grant) is Mismatch.REACH


@pytest.mark.parametrize(
    "command",
    ["ls $(cat x)", "bash -c ls", "env ls", "xargs ls", "find . -delete", "git status", "unheard-of"],
)
def test_an_interpreter_or_wrapper_is_never_permitted_by_a_sessions_yes(command: str) -> None:
    """AP8: however the yes came to be."""
    shown = call("shell/run", command="ls docs", provenance=USER)
    grant = grant_for(shown, scope=SESSION)
    reach = tuple(
        Reach(verb=Verb.EXECUTE, uri=f"program:{name}", authority=Authority.A2, tree=True, confirmed=False)
        for name in ("bash", "env", "xargs", "find", "git", "unheard-of")
    )
    wide = replace(
        grant,
        asked=replace(grant.asked, authority=Authority.A3),
        scope=replace(grant.scope, reach=(*grant.scope.reach, *reach)),
    )

    assert why(call("shell/run", command="ls docs/sub", provenance=USER), grant) is None
    assert why(call("shell/run", command=command, provenance=USER), wide) is Mismatch.ONLY_ONCE


@pytest.mark.parametrize("scope", [times(3), SESSION], ids=["times", "session"])
def test_what_may_be_given_only_once_now_is_no_longer_permitted_by_a_wider_yes(scope: Any) -> None:
    request = asked(READ)
    strong = granted(request, GRACE, scope=scope, factor=Factor.PASSKEY)
    passkey = PERMIT + rule("asks", STAFF + ' @factor("passkey")')

    assert why(READ, strong) is None
    assert why(READ, strong, passkey) is Mismatch.ONLY_ONCE
    assert why(READ, granted(request, GRACE, factor=Factor.PASSKEY), passkey) is None


def test_an_untrusted_destination_is_never_permitted_by_a_wider_yes() -> None:
    shown = call("web/fetch", url="https://example.net/", provenance=USER)
    grant = grant_for(shown, scope=SESSION)
    # Even if it had been shown as untrusted.
    bad = replace(grant.asked.provenance["/url"], untrusted=True)
    kept = replace(grant, asked=replace(grant.asked, provenance={"/url": bad}))
    web = call("web/fetch", url="https://example.net/", provenance={"/url": source("web")})

    assert why(web, kept) is Mismatch.ONLY_ONCE
    assert why(call("web/fetch", url="https://example.net/p", provenance=USER), kept) is None
    assert why(call("web/fetch", url="https://example.net.evil.example/", provenance=USER), kept) is (
        Mismatch.REACH
    )


@pytest.mark.parametrize(
    ("outer", "url", "expected"),
    [
        ("https://example.net/v1", "https://example.net/v1/a?q=1", True),
        ("https://example.net/v1", "https://example.net/v10", False),
        ("https://example.net/v1?q=1", "https://example.net/v1?q=1", True),
        ("https://example.net/v1?q=1", "https://example.net/v1?q=2", False),
        ("https://example.net/v1", "http://example.net/v1", False),
        ("https://example.net/v1", "https://example.net:8443/v1", False),
        ("nonsense", "https://example.net/v1", False),
        ("https://example.net/v1/../v2", "https://example.net/v2", False),
    ],
)
def test_containment_is_by_component(outer: str, url: str, expected: bool) -> None:
    reach = Reach(verb=Verb.CONNECT, uri=outer, authority=Authority.A0, tree=False, confirmed=False)
    (access,) = wants(call("web/fetch", url=url, provenance=USER)).accesses

    assert covers(reach, access) is expected
    assert not covers(replace(reach, verb=Verb.READ), access)
    assert not covers(reach, replace(access, authority=Authority.A1))


@pytest.mark.parametrize(
    ("reached", "made"),
    [
        ("https://example.net/v1?q=1", call("web/fetch", url="https://example.net/v1?q=1", provenance=USER)),
        ("repo:git.example.com/team/app#main", call("git/push", remote="git@git.example.com:team/app#main")),
    ],
)
def test_a_tree_of_a_spelling_is_that_of_all_of_it(reached: str, made: Call) -> None:
    """So where one url or one branch was shown, its tree lies outside."""
    if made.server == "git":
        (resource,) = canonicalize("repo", made.arguments["remote"], Base())  # type: ignore[misc]
        (access,) = wants(READ).accesses
        access = replace(access, verb=Verb.CONNECT, resource=resource)
    else:
        (access,) = wants(made).accesses
    reach = Reach(verb=Verb.CONNECT, uri=reached, authority=Authority.A0, tree=True, confirmed=False)

    assert access.resource.uri == reached
    assert covers(reach, access)
    assert not covers(reach, replace(access, scope=Scope.TREE))
    whole = reached.partition("?")[0].partition("#")[0]
    assert covers(replace(reach, uri=whole), replace(access, scope=Scope.TREE))


def test_a_leaf_that_was_not_shown_may_not_be_bad() -> None:
    grant = grant_for(READ, scope=SESSION)
    now = wants(READ)
    shown = now.asked.provenance["/path"]

    def with_leaf(**more: Any) -> CallNow:
        leaves = {**now.asked.provenance, "/new": replace(shown, **more)}
        return replace(now, asked=replace(now.asked, provenance=leaves))

    assert mismatch(with_leaf(), grant) is None
    assert mismatch(with_leaf(untrusted=True), grant) is Mismatch.PROVENANCE
    assert mismatch(with_leaf(secret=True), grant) is Mismatch.PROVENANCE
    assert mismatch(with_leaf(labels=frozenset({"private"})), grant) is Mismatch.PROVENANCE
