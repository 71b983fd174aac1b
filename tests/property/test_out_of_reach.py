"""What decides is out of every agent's reach (CF3): for every tool of the shipped bundle and every spelling.

Tools and arguments are read off the descriptors, so a tool that is added later is tried as well. What is
protected by name alone (secrets, hooks, settings) is written by no tool in any spelling:
`tests/policies/test_bundle_properties.py`. The rule itself: `tests/unit/bundle/test_self_protection.py`.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.bundle.load import compile_bundle, read_sources
from authz.bundle.self_protection import SELF_RULE, Protected
from authz.core.cases.deciding import Answered, answer, call_of
from authz.core.decide import decide
from authz.core.pointer import Tokens
from authz.core.requests import parse_decide
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.decision import Code, Decision, Effect
from authz.model.resource import ResolvedPath
from tests.policies.deciding import POLICIES, facts_for, sample_cases, sample_ruleset
from tests.policies.test_bundle_properties import spellings

PORT: Final = 8099
PROTECTED: Final = Protected(
    directories=frozenset({"/workspace/vault/policies", "/srv/authz/data"}),
    files=frozenset({"/workspace/settings.toml"}),
    hosts=frozenset({"authz.example.org"}),
    port=PORT,
)
"""Two in the sandbox, which may be changed otherwise, and none of them a place that exists."""
PLACES: Final = (
    "/workspace/vault/policies",
    "/workspace/vault/policies/rules/new.cedar",
    "/workspace/vault/policies/hooks/a/b",
    "/workspace/settings.toml",
    "/srv/authz/data",
    "/srv/authz/data/authz.db",
    # By the sample's own rules.
    "/workspace/.authz/grants.json",
    "/workspace/app/.policy/bundle.yaml",
    "/workspace/.agent/settings.json",
    "/workspace/.claude/hooks/check.py",
    "/home/agent/.config/authz/token",
    "/etc/authz/authz.yaml",
)


@cache
def guarded() -> Ruleset:
    """The shipped bundle, as a service at those places loads it."""
    return compile_bundle(read_sources(POLICIES), PROTECTED)


@dataclass(frozen=True)
class Slot:
    """An argument of a tool that names a path or an address, in a call that is not denied otherwise."""

    call: Call
    kind: str
    at: Tokens
    whole_tree: str | None
    """The argument that makes the access one to a tree."""

    @property
    def name(self) -> str:
        return f"{self.call.tool_name} {'/'.join(self.at)}"

    def filled(self, text: str) -> Call:
        """The call with this argument."""
        (member,) = self.at
        properties = guarded().tools[self.call.server, self.call.tool].descriptor.input_schema["properties"]
        value: Any = [text] if properties[member]["type"] == "array" else text
        return replace(self.call, arguments={**self.call.arguments, member: value})


def _slots() -> list[Slot]:
    """One for each place of each tool, in the first of its cases that is not denied."""
    found: dict[tuple[str, Tokens], Slot] = {}
    for case in sample_cases():
        if not case.is_call:
            continue  # issuing a capability reaches nothing
        answered = answer(case, sample_ruleset())
        if not isinstance(answered, Answered) or answered.outcome.decision.effect is Effect.DENY:
            continue
        made = call_of(case, sample_ruleset())
        for access in sample_ruleset().tools[made.server, made.tool].descriptor.accesses:
            if access.kind == "path" and made.claims.cwd is None:
                continue  # spellings here are also relative ones
            if access.at is not None and access.kind in ("path", "url", "host"):
                tree = access.tree_if[0] if access.tree_if else None
                slot = Slot(call=made, kind=access.kind, at=access.at, whole_tree=tree)
                found.setdefault((made.tool_name, access.at), slot)
    return list(found.values())


SLOTS: Final = _slots()
PATHS: Final = [slot for slot in SLOTS if slot.kind == "path"]
ADDRESSES: Final = [slot for slot in SLOTS if slot.kind != "path"]


def decided(made: Call, profile: str = "runtime") -> Decision:
    return decide(made, facts_for(guarded(), profile)).decision


def test_every_tool_that_names_a_path_or_an_address_is_tried() -> None:
    named = {
        tool.descriptor.qualified_name
        for tool in guarded().tools.values()
        if any(access.at and access.kind in ("path", "url", "host") for access in tool.descriptor.accesses)
    }
    assert {slot.call.tool_name for slot in SLOTS} == named
    assert len(PATHS) >= 12
    assert len(ADDRESSES) >= 3
    # Each call is fine but for the place, so what is denied below is denied for the place.
    for slot in SLOTS:
        assert decided(slot.call).effect is not Effect.DENY, slot.name


def is_out_of_reach(decision: Decision, place: str) -> bool:
    """Denied by a rule; by the built-in one where the place is this service's."""
    if decision.effect is not Effect.DENY or decision.code is not Code.POLICY_FORBID:
        return False
    ours = any(place == own or place.startswith(f"{own}/") for own in PROTECTED.directories | PROTECTED.files)
    return not ours or SELF_RULE in {rule.rule for rule in decision.matched}


@pytest.mark.parametrize("slot", PATHS, ids=lambda slot: slot.name)
@pytest.mark.parametrize("place", PLACES)
def test_no_tool_reaches_a_place(slot: Slot, place: str) -> None:
    """Plainly, and as what another name leads to. Nothing looks whether the place exists."""
    assert is_out_of_reach(decided(slot.filled(place)), place)
    (member,) = slot.at
    linked = slot.filled("/workspace/docs/link")
    pointer = f"/{member}/0" if isinstance(linked.arguments[member], list) else f"/{member}"
    claims = replace(linked.claims, resolved={pointer: ResolvedPath(path=place)})
    assert is_out_of_reach(decided(replace(linked, claims=claims)), place)


@given(st.data(), st.sampled_from(PATHS), st.sampled_from(PLACES))
def test_nor_in_any_spelling(data: st.DataObject, slot: Slot, place: str) -> None:
    assert is_out_of_reach(decided(slot.filled(data.draw(spellings(place)))), place)


@given(st.data(), st.sampled_from(PATHS), st.sampled_from(PLACES))
def test_nor_in_any_letter_case_where_the_volume_folds_it(
    data: st.DataObject, slot: Slot, place: str
) -> None:
    swap = data.draw(st.lists(st.booleans(), min_size=len(place), max_size=len(place)))
    spelled = "".join(char.swapcase() if swapped else char for char, swapped in zip(place, swap, strict=True))
    assert is_out_of_reach(decided(slot.filled(spelled), "laptop"), place)


@pytest.mark.parametrize("slot", [slot for slot in PATHS if slot.whole_tree], ids=lambda slot: slot.name)
@pytest.mark.parametrize("above", ["/workspace", "/workspace/vault", "/workspace/vault/.", "/srv", "/"])
def test_nor_by_a_folder_that_holds_it(slot: Slot, above: str) -> None:
    """Moving, copying or deleting a tree is doing so to what lies in it."""
    assert slot.whole_tree is not None
    made = slot.filled(above)
    made = replace(made, arguments={**made.arguments, slot.whole_tree: True})
    assert decided(made).effect is Effect.DENY


HOSTS: Final = (
    *("127.0.0.1", "localhost", "127.1", "0x7f.1", "0177.0.0.1", "2130706433", "0x7f000001", "127.0.0.1."),
    *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "0.0.0.0", "[::]", "127.9.9.9"),
    *("LOCALHOST", "localhost.", "a.localhost", "ⓛocalhost", "authz.example.org", "AUTHZ.Example.ORG."),
    *("authz%2eexample.org", "ａuthz.example.org", "127。0。0。1"),
)


@given(
    st.sampled_from(ADDRESSES),
    st.sampled_from(["http", "https", "HTTP", "hTTps"]),
    st.sampled_from(HOSTS),
    st.sampled_from([f":{PORT}", f":0{PORT}"]),
    st.sampled_from(["", "/", "/decide", "/a/../decide?x=1", "/%64ecide#x", "\\decide"]),
)
def test_no_tool_reaches_the_service(slot: Slot, scheme: str, host: str, port: str, path: str) -> None:
    assert decided(slot.filled(f"{scheme}://{host}{port}{path}")).effect is Effect.DENY


@given(
    st.data(), st.sampled_from(ADDRESSES), st.sampled_from(PLACES), st.sampled_from(["file", "FILE", "File"])
)
def test_no_address_is_an_allowed_way_to_a_place(
    data: st.DataObject, slot: Slot, place: str, scheme: str
) -> None:
    """A url that is a file's is no address that is understood, so a person is asked at worst."""
    spelled = data.draw(spellings(place))
    url = spelled.replace("file:", f"{scheme}:") if spelled.startswith("file:") else f"{scheme}://{spelled}"
    assert decided(slot.filled(url)).effect is not Effect.ALLOW


# Command lines that a person would read at once, `{}` in place of the place.
PLAIN: Final = (
    *("cat {}", "rm {}", "rm -rf {}", "touch {}", "tee {} < a", "cp a {}", "cp {} a", "mv {} a", "mv a {}"),
    *("echo x > {}", "echo x >> {}", "cat < {}", "ls && cat {}", "true; rm {}", "ls | tee {}", "(cat {})"),
    *("sed -i s/a/b/ {}", "head -n 1 {}", "mkdir -p {}", "ln -s {} a", "if true; then cat {}; fi"),
    *("env A=b cat {}", "nohup cat {}", "bash -c 'cat {}'", "cat '{}'", 'cat "{}"', "echo $(cat {})"),
)
# And those that may be too much to understand, so that a person is asked at worst.
OTHER: Final = (
    *("find {} -delete", "tar cf a.tar {}", "dd if=a of={}", "xargs cat < {}", "python3 {}", "chmod 777 {}"),
    *("install a {}", "rsync a {}", "grep -r x {}", "git -C {} status", "awk 1 {}", "curl -o {} https://a.b"),
    *("cat <<X > {}\nx\nX", "for f in {}; do cat $f; done", "eval cat {}", "perl -pi -e 1 {}", ". {}", "{}"),
)
SHELL: Final = parse_decide(
    {
        "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"},
        "tool": {"server": "shell", "name": "run"},
        "arguments": {"command": "true"},
        "provenance": {"": {"source": "user"}},
        "context": {
            "trace_id": "t",
            "turn_id": "1",
            "tool_call_id": "c",
            "cwd": "/workspace",
            "sandbox_root": "/workspace",
        },
    }
)


def ran(line: str) -> Decision:
    return decided(replace(SHELL, arguments={"command": line}))


def test_the_same_commands_are_fine_elsewhere() -> None:
    """So what is denied below is denied for the place."""
    for line in PLAIN:
        assert ran(line.format("/workspace/notes.txt")).effect is not Effect.DENY, line


@settings(max_examples=60)
@given(st.data(), st.sampled_from(PLAIN), st.sampled_from(PLACES[:6]))
def test_no_plain_command_reaches_a_place(data: st.DataObject, line: str, place: str) -> None:
    spelled = data.draw(spellings(place).filter(lambda text: not text.startswith(("file:", "~"))))
    assert ran(line.format(spelled)).effect is Effect.DENY


@settings(max_examples=60)
@given(st.data(), st.sampled_from(OTHER), st.sampled_from(PLACES))
def test_no_command_is_allowed_to_reach_a_place(data: st.DataObject, line: str, place: str) -> None:
    spelled = data.draw(spellings(place).filter(lambda text: not text.startswith("file:")))
    assert ran(line.format(spelled)).effect is not Effect.ALLOW


@pytest.mark.parametrize("host", HOSTS)
def test_no_command_is_allowed_to_reach_the_service(host: str) -> None:
    for line in ("curl http://{}:{}/decide", "wget -qO- http://{}:{}", "curl -d @a {}:{}", "nc {} {}"):
        assert ran(line.format(host, PORT)).effect is not Effect.ALLOW
