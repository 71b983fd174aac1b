"""What a caller says about itself is believed only as far as the bundle lets it say so."""

import pytest

from authz.core.claims import check_claims, check_subject_of
from authz.model.call import Claims, Subject
from authz.model.caller import Profile
from authz.model.decision import Effect
from authz.model.resource import Authority
from tests.support.world import call, decide_in, world

PROFILE = Profile(
    name="p",
    agents=frozenset({"coder-1"}),
    users=frozenset({"ada"}),
    sandboxes=("/workspace", "/tmp/agents"),
    home="/home/agent",
)


@pytest.mark.parametrize(
    ("agent", "user", "allowed"),
    [
        ("coder-1", "ada", True),
        ("coder-1", None, True),
        ("coder-1", "grace", False),
        ("coder-2", "ada", False),
        ("CODER-1", None, False),
        ("coder-1 ", None, False),
        ("*", None, False),
        ("coder-1", "*", False),
        ("coder-1", "", False),
    ],
)
def test_a_credential_speaks_for_whom_its_profile_lists(agent: str, user: str | None, allowed: bool) -> None:
    refused = check_subject_of(Subject(agent=agent, on_behalf_of=user), PROFILE)
    assert (refused is None) is allowed


def test_an_empty_list_lists_nobody() -> None:
    """CF2: empty is not absent."""
    assert check_subject_of(Subject(agent="coder-1"), Profile(name="p")) is not None
    anybody = Profile(name="p", agents=frozenset({"*"}))
    assert check_subject_of(Subject(agent="anyone"), anybody) is None
    assert check_subject_of(Subject(agent="anyone", on_behalf_of="ada"), anybody) is not None


@pytest.mark.parametrize(
    ("root", "believed"),
    [
        ("/workspace", "/workspace"),
        ("/workspace/", "/workspace"),
        ("/workspace/sub/../sub", "/workspace/sub"),
        ("/tmp/agents/1", "/tmp/agents/1"),
        ("/", None),
        ("/workspaces", None),
        ("/workspace/..", None),
        ("/workspace/../etc", None),
        ("workspace", None),
        ("~", None),
        ("/tmp", None),
        ("", None),
        ("/workspace\x00", None),
        ("https://example.com/workspace", None),
    ],
)
def test_a_sandbox_is_believed_inside_the_declared_directories_alone(root: str, believed: str | None) -> None:
    for claim in ("sandbox_root", "cwd"):
        found = check_claims(Claims(**{claim: root}), PROFILE)
        value = found.sandbox_root if claim == "sandbox_root" else found.base.cwd
        assert value == believed
        assert found.disbelieved == (() if believed else (claim,))


def test_what_is_not_claimed_is_unknown_and_nothing_is_disbelieved() -> None:
    found = check_claims(Claims(), PROFILE)
    assert (found.base.cwd, found.base.root, found.sandbox_root, found.disbelieved) == (None, None, None, ())
    assert found.base.home == "/home/agent"


def test_a_profile_without_sandboxes_believes_none() -> None:
    assert check_claims(Claims(cwd="/workspace", sandbox_root="/"), Profile(name="p")).disbelieved == (
        "cwd",
        "sandbox_root",
    )


def test_a_volume_that_folds_case_folds_the_claim_as_well() -> None:
    folding = Profile(name="p", sandboxes=("/workspace",), volume_case_sensitive=False)
    assert check_claims(Claims(sandbox_root="/WorkSpace/A"), folding).sandbox_root == "/workspace/a"
    assert check_claims(Claims(sandbox_root="/WorkSpace"), PROFILE).sandbox_root is None


WORLD = world('@id("a1") permit (principal, action in [Action::"A0", Action::"A1"], resource);')


@pytest.mark.parametrize(
    ("root", "cwd", "authority"),
    [
        ("/workspace", "/workspace", Authority.A1),
        ("/workspace", None, Authority.A1),
        (None, "/workspace", Authority.A3),
        ("/workspace/other", "/workspace", Authority.A3),
        ("/", "/workspace", Authority.A3),
        ("/etc", None, Authority.A3),
        ("/workspace", "/", Authority.A3),
    ],
)
def test_an_unbelieved_claim_puts_changes_at_a3(
    root: str | None, cwd: str | None, authority: Authority
) -> None:
    """Whatever is claimed about itself, a caller gets no lower than what it may claim."""
    made = call("fs/file_edit", path="/workspace/a", text="", sandbox_root=root, cwd=cwd)
    decision = decide_in(WORLD, made).decision
    assert decision.authority is authority
    assert decision.effect is (Effect.ALLOW if authority is Authority.A1 else Effect.DENY)


def test_a_relative_path_without_a_believed_directory_is_opaque() -> None:
    for cwd in (None, "/etc", "sub"):
        decision = decide_in(WORLD, call("fs/file_read", path="a", cwd=cwd)).decision
        assert [access.resource.kind for access in decision.accesses] == ["opaque"]
