"""What holds for the shipped bundle as a whole, beyond the cases that stand beside its rules."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.api.wire import parse_decide
from authz.bundle.load import BundleSources, compile_bundle, read_sources
from authz.bundle.self_protection import Protected
from authz.cli.test_run import NOT_OURS
from authz.core.arguments import ArgumentSchema
from authz.core.cases.case import Case
from authz.core.cases.deciding import Answered, answer
from authz.core.cases.judging import judge
from authz.core.cases.mutation import mutate, with_policies
from authz.core.catalogue import visible_entries
from authz.core.claims import check_claims
from authz.core.decide import decide
from authz.core.judge import evaluate_policy
from authz.core.policy import parse_rule_file
from authz.core.provenance import check_provenance
from authz.core.ruleset import Ruleset
from authz.core.tools import canonicalize_call
from authz.core.visibility import hidden_because
from authz.model.call import Subject
from authz.model.capability import CapabilityFacts
from authz.model.decision import Code, Effect, Refusal, RuleKind
from tests.policies.deciding import POLICIES, facts_for, sample_cases, sample_ruleset

LOADS: Final = 20

# Rules that no case can show to change the effect, and why.
NEVER_ALONE: Final = {
    "opaque-not-delegated": "without a capability the rule of delegation.cedar denies as well",
    "capabilities-never-administer": "nothing permits it; this one says so to whoever writes such a permit",
    "large-payments-need-two": "every payment is asked for; this one says how many must agree",
}


def verdict_of(case: Case, ruleset: Ruleset) -> object:
    found = answer(case, ruleset)
    return found.verdict if isinstance(found, Answered) else found


def answer_of(case: Case, ruleset: Ruleset) -> object:
    found = answer(case, ruleset)
    return (found.outcome, found.record()) if isinstance(found, Answered) else found


def test_without_a_rule_some_verdict_is_another() -> None:
    """No rule is there for show: without it some case has another verdict, nearly always another effect."""
    ruleset = sample_ruleset()
    judged = [judge(case, ruleset) for case in sample_cases()]
    results = list(mutate(judged, ruleset, NOT_OURS, conditions=False))

    assert {result.mutant.rule for result in results} == ruleset.engine.policies.keys() - NOT_OURS
    assert [result.mutant.rule for result in results if not result.noticed] == []
    assert {result.mutant.rule for result in results if not result.changes_effect} == NEVER_ALONE.keys()


def test_a_capability_does_not_open_what_is_not_understood() -> None:
    """The agent of a delegation with a capability: everyday work goes on, a shell line is denied."""
    shell = {"server": "shell", "name": "run"}, {"command": "make test"}
    read = {"server": "fs", "name": "file_read"}, {"path": "/workspace/app.py"}

    assert _with_capability(*shell) == (Effect.DENY, ["opaque-not-delegated"])
    assert _with_capability(*read) == (Effect.ALLOW, ["workspace-read"])


def _with_capability(tool: dict[str, str], arguments: dict[str, str]) -> tuple[Effect, list[str]]:
    """Stage 7 alone, since stage 6 cannot yet verify a capability."""
    body = {
        "subject": {"agent": "coder-2", "on_behalf_of": "ada", "session": "s-1", "parent_agent": "coder-1"},
        "tool": tool,
        "arguments": arguments,
        "context": {"cwd": "/workspace", "sandbox_root": "/workspace"},
    }
    call = parse_decide(body)
    facts = facts_for(sample_ruleset(), "runtime")
    profile = facts.caller.profile
    known = facts.ruleset.tools[(call.server, call.tool)]
    believed = check_claims(call.claims, profile)
    checked = known.schema.check(call.arguments)
    assert not isinstance(checked, tuple)
    canonical = canonicalize_call(call, known.descriptor, known.roles, checked, believed)
    assert not isinstance(canonical, Refusal)
    provenance = check_provenance(call, checked, known.roles, profile, frozenset())
    capability = CapabilityFacts(presented=True, agents=("coder-1", "coder-2"), depth=1)
    judged = evaluate_policy(call, facts, known, canonical, believed, provenance, capability)
    return judged.effect, [rule.rule for rule in judged.matched]


@pytest.mark.parametrize("order", ["reversed", "by line of text"])
def test_the_order_of_rules_decides_nothing(order: str) -> None:
    ruleset = sample_ruleset()
    policies = list(ruleset.engine.policies.values())
    ordered = policies[::-1] if order == "reversed" else sorted(policies, key=lambda policy: policy.text)
    other = with_policies(ruleset, ordered)

    assert [verdict_of(case, other) for case in sample_cases()] == [
        verdict_of(case, ruleset) for case in sample_cases()
    ]


def test_the_order_of_files_decides_nothing() -> None:
    sources = read_sources(POLICIES)
    backwards = BundleSources(files=dict(reversed(list(sources.files.items()))))
    other = compile_bundle(backwards, Protected())

    assert other.version == sample_ruleset().version
    assert [verdict_of(case, other) for case in sample_cases()] == [
        verdict_of(case, sample_ruleset()) for case in sample_cases()
    ]


@pytest.mark.slow
def test_the_same_bytes_give_the_same_answers() -> None:
    sources = read_sources(POLICIES)
    first = [answer_of(case, sample_ruleset()) for case in sample_cases()]
    for _ in range(LOADS - 1):
        ruleset = compile_bundle(sources, Protected())
        assert ruleset.schema_text == sample_ruleset().schema_text
        assert [answer_of(case, ruleset) for case in sample_cases()] == first


# What an agent may never write, whatever the folder above it is.
PROTECTED_NAMES: Final = (
    ".authz",
    ".authz/rules/new.cedar",
    ".policy/bundle.yaml",
    ".agent",
    ".agent/settings.json",
    ".agent/hooks/check.py",
    ".claude",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks/check.py",
    ".mcp.json",
    ".git",
    ".git/hooks/pre-commit",
    ".git/config",
    ".gitconfig",
    ".env",
    ".secrets/token",
    ".ssh/authorized_keys",
    ".gnupg/trustdb.gpg",
    ".aws/credentials",
)

# Where an agent may never write: spelled plainly, and absolute.
PROTECTED_PLACES: Final = (
    *(f"/workspace/{name}" for name in PROTECTED_NAMES),
    "/workspace/app/.authz/x",
    "/workspace/app/.claude/settings.json",
    "/workspace/app/.git/config",
    "/workspace/app/.secrets/x",
    "/home/agent/.ssh/authorized_keys",
    "/home/agent/.claude/settings.json",
    "/home/agent/.gitconfig",
    "/home/agent/.bashrc",
    "/etc/authz/authz.yaml",
    "/etc/passwd",
)

# One call of each tool that puts something at a path, with the path left out.
WRITERS: Final[dict[str, tuple[dict[str, str], dict[str, object], str]]] = {
    "write": ({"server": "fs", "name": "file_write"}, {"content": "x"}, "path"),
    "edit": ({"server": "fs", "name": "file_edit"}, {"old_str": "a", "new_str": "b"}, "path"),
    "delete": ({"server": "fs", "name": "file_delete"}, {}, "path"),
    "delete all": ({"server": "fs", "name": "file_delete"}, {"recursive": True}, "path"),
    "move to": ({"server": "fs", "name": "file_move"}, {"source": "/workspace/a"}, "destination"),
    "move from": ({"server": "fs", "name": "file_move"}, {"destination": "/workspace/a"}, "source"),
    "copy to": ({"server": "fs", "name": "file_copy"}, {"source": "/workspace/a"}, "destination"),
    "clone to": ({"server": "git", "name": "clone"}, {"url": "https://git.example.net/a"}, "directory"),
}


@st.composite
def spellings(draw: st.DrawFn, place: str) -> str:
    """Another way to write the same absolute path."""
    parts = place.strip("/").split("/")
    written = ""
    for depth, part in enumerate(parts):
        detours = ["/", "//", "/./", f"/x{depth}/../", "/x/y/../../"]
        # Up to the root and down again, by the way that the path has come.
        detours.append("/" + "../" * (depth + 1) + "".join(f"{above}/" for above in parts[:depth]))
        written += draw(st.sampled_from(detours)) + part
    written += draw(st.sampled_from(["", "/", "/."]))
    form = draw(st.sampled_from(["plain", "relative", "home", "file", "file localhost", "encoded"]))
    if form == "relative":
        return "../.." + written
    if form == "home" and place.startswith("/home/agent/"):
        return "~/" + place.removeprefix("/home/agent/")
    if form in ("plain", "home"):
        return written
    # The path of a URI begins with one slash; two are refused.
    path = written.lstrip("/")
    if form == "encoded":
        path = "/".join("".join(f"%{byte:02X}" for byte in part.encode()) for part in path.split("/"))
    return f"file://{'localhost' if form == 'file localhost' else ''}/{path}"


def write_call(writer: str, path: str, resolved: str | None = None) -> dict[str, object]:
    tool, arguments, at = WRITERS[writer]
    context: dict[str, object] = {
        "trace_id": "t",
        "turn_id": "1",
        "tool_call_id": "c",
        "cwd": "/workspace",
        "sandbox_root": "/workspace",
    }
    if resolved is not None:
        context["resolved"] = {f"/{at}": {"path": resolved, "device": 1, "inode": 2}}
    return {
        "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"},
        "tool": tool,
        "arguments": {**arguments, at: path},
        "provenance": {"": {"source": "user"}},
        "context": context,
    }


def code_of(body: dict[str, object], profile: str = "runtime") -> Code:
    decision = decide(parse_decide(body), facts_for(sample_ruleset(), profile)).decision
    assert decision.effect is Effect.DENY
    return decision.code


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("place", PROTECTED_PLACES)
def test_protected_places_are_not_written(place: str, writer: str) -> None:
    """Nothing here looks whether the place exists, so a place that does not is protected as well."""
    assert code_of(write_call(writer, place)) is Code.POLICY_FORBID


@given(st.data(), st.sampled_from(PROTECTED_PLACES), st.sampled_from(sorted(WRITERS)))
def test_nor_in_any_spelling(data: st.DataObject, place: str, writer: str) -> None:
    assert code_of(write_call(writer, data.draw(spellings(place)))) is Code.POLICY_FORBID


@st.composite
def letter_cases(draw: st.DrawFn, text: str) -> str:
    """The same text with any of its letters in upper case."""
    upper = draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
    return "".join(c.upper() if up else c for c, up in zip(text, upper, strict=True))


@given(st.data(), st.sampled_from(PROTECTED_PLACES), st.sampled_from(sorted(WRITERS)))
def test_nor_in_any_letter_case_where_the_volume_folds_it(
    data: st.DataObject, place: str, writer: str
) -> None:
    assert code_of(write_call(writer, data.draw(letter_cases(place))), "laptop") is Code.POLICY_FORBID


@given(
    st.data(),
    st.sampled_from(["/workspace", "/workspace/app", "/workspace/a/b/c", "/workspace/config", "/srv/app"]),
    st.sampled_from(PROTECTED_NAMES),
    st.sampled_from(sorted(WRITERS)),
)
def test_names_hold_at_any_depth_and_in_any_letter_case_whatever_the_volume(
    data: st.DataObject, folder: str, name: str, writer: str
) -> None:
    """Nobody has to declare that a volume folds case."""
    path = f"{folder}/{data.draw(letter_cases(name))}"

    assert code_of(write_call(writer, path)) is Code.POLICY_FORBID


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("place", PROTECTED_PLACES)
def test_nor_by_another_name_that_leads_there(place: str, writer: str) -> None:
    assert code_of(write_call(writer, "/workspace/docs/link.txt", place)) is Code.POLICY_FORBID


SUBJECTS: Final = (
    Subject(agent="coder-1", on_behalf_of="ada"),
    Subject(agent="coder-3", on_behalf_of="ada"),
    Subject(agent="coder-1", on_behalf_of="lin"),
    Subject(agent="coder-1", on_behalf_of="nils"),
    Subject(agent="assistant-1", on_behalf_of="grace"),
    Subject(agent="unheard-of"),
    Subject(agent="ci-builder"),
)


@pytest.mark.parametrize("profile", sorted(sample_ruleset().profiles))
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: f"{s.agent} for {s.on_behalf_of or 'nobody'}")
def test_what_is_shown_can_be_called_and_what_is_hidden_cannot(subject: Subject, profile: str) -> None:
    ruleset = sample_ruleset()
    facts = facts_for(ruleset, profile)
    shown = {
        (alias, entry.name)
        for alias, server in ruleset.servers.items()
        if server.local
        for entry in visible_entries(ruleset, facts.caller.profile, subject, alias, None)
    }
    for (alias, name), tool in ruleset.tools.items():
        body = {
            "subject": {"agent": subject.agent, "on_behalf_of": subject.on_behalf_of},
            "tool": {
                "server": alias,
                "name": name,
                "advertised_digest": tool.descriptor.advertised_digest,
            },
            "arguments": {},
        }
        unknown = decide(parse_decide(body), facts).decision.code is Code.TOOL_UNKNOWN
        if tool.descriptor.server.local:
            assert unknown == ((alias, name) not in shown)
        else:
            bound = profile in tool.descriptor.server.profiles
            hidden = hidden_because(ruleset, tool, subject.agent, subject.on_behalf_of) is not None
            assert unknown == (hidden or not bound)


def test_who_sees_what() -> None:
    """Frozen agents see what reads; agents that act for nobody on the staff see no personal tools."""
    ruleset = sample_ruleset()

    def seen(agent: str, user: str | None) -> set[str]:
        return {
            tool.descriptor.qualified_name
            for tool in ruleset.tools.values()
            if hidden_because(ruleset, tool, agent, user) is None
        }

    everything = {tool.descriptor.qualified_name for tool in ruleset.tools.values()}
    personal = {name for name in everything if name.startswith(("mail/", "calendar/", "payments/"))}
    assert seen("coder-1", "ada") == everything
    assert seen("coder-1", "lin") == seen("unheard-of", None) == everything - personal
    assert seen("coder-3", "lin") == {
        "fs/file_list",
        "fs/file_read",
        "fs/file_search",
        "git/log",
        "git/status",
        "shell/run",
        "web/fetch",
        "web/search",
    }


def test_no_permit_reaches_a_place_inside() -> None:
    """Forbids win whatever the permits say, so new permits cannot open what is protected."""
    ruleset = sample_ruleset()
    everything = parse_rule_file("extra.cedar", '@id("everything") permit (principal, action, resource);')
    lax = with_policies(ruleset, [*ruleset.engine.policies.values(), *everything])
    forbids = {p.id for p in ruleset.engine.policies.values() if p.match.kind is RuleKind.FORBID}
    protected = [case for case in sample_cases() if case.expected.reaches & forbids]
    denied = [case for case in protected if case.expected.effect == Effect.DENY.value]

    assert denied
    assert all(verdict_of(case, lax) == verdict_of(case, ruleset) for case in denied)
    # The others are asked for, and forbids keep people from approving them.
    asked = [case for case in protected if case not in denied]
    assert all(case.expected.people for case in asked)
    for case in asked:
        found, before = answer(case, lax), answer(case, ruleset)
        assert isinstance(found, Answered), case.id
        assert isinstance(before, Answered), case.id
        assert found.effects == before.effects, case.id
        assert found.approving == before.approving, case.id


# Text of more than one line, which no header or form takes up: nothing is cut off by a line end in it.
PROSE: Final = frozenset(
    {"body", "description", "command", "content", "old_str", "new_str", "message", "pattern"}
)
# Kinds whose canonical form holds no control character; `id` is not one, since it trims.
CHECKED_KINDS: Final = frozenset({"path", "url"})


def _one_line_arguments() -> list[tuple[str, str]]:
    """(tool, argument) of every string that is one line and that its schema alone holds to that."""
    return [
        (f"{server}/{name}", argument)
        for (server, name), known in sorted(sample_ruleset().tools.items())
        for argument, schema in known.descriptor.input_schema["properties"].items()
        if argument not in PROSE
        and "string" in (schema["type"], schema.get("items", {}).get("type"))
        and not {"enum", "format"} & schema.keys()
        and not any(
            access.at == (argument,) and access.kind in CHECKED_KINDS for access in known.descriptor.accesses
        )
    ]


@pytest.mark.parametrize(("tool", "argument"), _one_line_arguments())
@given(
    before=st.text("abcdefgh0123456789@.", min_size=16, max_size=24),
    control=st.characters(categories=["Cc", "Zl", "Zp"]),
    after=st.text("abc:", max_size=4),
)
def test_no_line_end_stands_in_an_argument_of_one_line(
    tool: str, argument: str, before: str, control: str, after: str
) -> None:
    """A line end in a subject, a media type or a key adds a header that nobody has judged."""
    server, _, name = tool.partition("/")
    schema = sample_ruleset().tools[(server, name)].descriptor.input_schema["properties"][argument]
    alone = ArgumentSchema({"type": "object", "properties": {argument: schema}})
    value = before + control + after
    assert isinstance(alone.check({argument: [value] if schema["type"] == "array" else value}), tuple)


SHARED_BRANCHES: Final = ("main", "master", "release")


@given(
    st.sampled_from(SHARED_BRANCHES),
    st.sampled_from(
        ["", "+", "-", "--", ":", " ", "refs/heads/", "heads/", "Refs/Heads/", "HEAD:", "a:", "refs/", "\t"]
    ),
    st.sampled_from(["", " ", "\n", "^0", "~0", "^{}", "@{0}", ":main", "\u200b", "\x00"]),
    st.booleans(),
)
def test_a_shared_branch_is_not_forced_in_any_spelling(
    branch: str, before: str, after: str, force: bool
) -> None:
    body = {
        **write_call("write", "/workspace/a"),
        "tool": {"server": "git", "name": "push"},
        "arguments": {"remote": "origin", "branch": before + branch + after, "force": force},
    }
    decision = decide(parse_decide(body), facts_for(sample_ruleset(), "runtime")).decision
    assert (decision.effect is Effect.DENY) == bool(before or after or force)


@given(
    st.sampled_from(
        [".env", "prod.env", "server.key", "store.p12", "id_rsa", "id_ed25519", ".netrc", ".pgpass"]
    ),
    st.sampled_from(["~", ".bak", ".old", ".orig"]),
    st.sampled_from(["", "app/", "a/b/c/"]),
    st.sampled_from(["runtime", "laptop"]),
    st.data(),
)
def test_a_backup_of_a_secret_is_kept_like_the_secret(
    name: str, suffix: str, folder: str, profile: str, data: st.DataObject
) -> None:
    spelled = name + suffix
    if profile == "laptop":
        spelled = data.draw(letter_cases(spelled))
    for writer in WRITERS:
        assert code_of(write_call(writer, f"/workspace/{folder}{spelled}"), profile) is Code.POLICY_FORBID
