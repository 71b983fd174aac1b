"""A whole world in memory: a bundle from a few lines of text, a call, and the decision on it.

Nothing here stands in for the product: the bundle goes through the loader, and the call through `decide`.

    ruleset = world('@id("reads") permit (principal, action in Action::"read", resource);')
    outcome = decide_in(ruleset, call("fs/file_read", path="/workspace/a"))
    assert outcome.decision.effect is Effect.ALLOW
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from authz.bundle.load import BundleSources, compile_bundle
from authz.bundle.self_protection import Protected
from authz.core.approval_asking import supposed_yes
from authz.core.decide import Facts, Outcome, decide
from authz.core.facts import NO_APPROVALS
from authz.core.pointer import parse_pointer
from authz.core.record import decision_event
from authz.core.redact import Redactor
from authz.core.ruleset import Ruleset
from authz.errors import BundleError, BundleProblem
from authz.model.approval_writes import ApprovalFacts
from authz.model.call import Call, CallIds, Claims, ProvenanceClaim, Subject
from authz.model.caller import Caller, Profile
from authz.model.limit import Reached
from authz.model.operation import OperationRecord
from authz.model.resource import ResolvedPath
from authz.model.tool import Trust

NOW_MS = 1_796_032_800_123
"""2026-11-30T10:00:00.123Z."""
PINNED = "sha256:" + "a" * 64
"""The advertised digest that the default remote tools pin."""
IDS = CallIds(trace="t-1", turn="1", call="call-1")
NO_IDS = CallIds()

MANIFEST = "format: 1\nname: test\n"
CREDENTIALS = """\
profiles:
  runtime:
    agents: ["*"]
    users: ["*"]
    sandboxes: [/workspace]
    home: /home/agent
    sources: [user, system, project, tool_result, file, web, email, memory, agent, secret, model]
    resolves: true
"""
ENTITIES = """\
groups:
  staff: {}
  finance: {groups: [staff]}
users:
  ada: {groups: [staff]}
  grace: {groups: [finance]}
agents:
  coder-1: {}
"""
PERMIT_ALL = '@id("everything") permit (principal, action, resource);'


def tool(
    name: str,
    accesses: Iterable[Mapping[str, Any]],
    properties: Mapping[str, Any],
    *,
    required: Iterable[str] | None = None,
    roles: Mapping[str, str] | None = None,
    schema: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One entry of `tools:`. Without `required` every property without a default is required."""
    accesses = list(accesses)
    named = {str(access["at"])[1:].split("/")[0] for access in accesses if "at" in access}
    changes = any(access["verb"] not in ("read", "connect") for access in accesses)
    if required is None:
        required = [key for key, member in properties.items() if "default" not in member]
    return {
        "name": name,
        "description": f"The tool {name}.",
        "input_schema": {
            "type": "object",
            "properties": dict(properties),
            "required": list(required),
            "additionalProperties": False,
            **(schema or {}),
        },
        "roles": {f"/{key}": "target" if key in named else "option" for key in properties} | (roles or {}),
        "accesses": accesses,
        "side_effect": "idempotent" if changes else "none",
        **more,
    }


def tool_file(alias: str, *tools: Mapping[str, Any], local: bool = True, **server: Any) -> str:
    """The text of a file of `tools/`: JSON, which is YAML too."""
    described = {"alias": alias, "identity": f"local:{alias}", "local": local, "profiles": ["runtime"]}
    text = json.dumps({"server": described | server, "tools": tools}, ensure_ascii=False, indent=1)
    # What a bundle file may not hold as it is can still be written as an escape, in YAML's way.
    return re.sub(r"[^ -~\n]", lambda found: f"\\U{ord(found.group()):08x}", text)


TEXT = {"type": "string"}
FS = tool_file(
    "fs",
    tool("file_read", [{"verb": "read", "kind": "path", "at": "/path"}], {"path": TEXT}),
    tool(
        "file_edit",
        [{"verb": "write", "kind": "path", "at": "/path"}],
        {"path": TEXT, "text": TEXT, "append": {"type": "boolean", "default": False}},
        roles={"/text": "payload"},
        leaves_sandbox=False,
    ),
    tool(
        "file_remove",
        [{"verb": "delete", "kind": "path", "at": "/path", "tree_if": "/recursive"}],
        {"path": TEXT, "recursive": {"type": "boolean", "default": False}},
        leaves_sandbox=False,
    ),
    tool(
        "file_copy",
        [{"verb": "read", "kind": "path", "at": "/from"}, {"verb": "write", "kind": "path", "at": "/to"}],
        {"from": TEXT, "to": TEXT},
        leaves_sandbox=False,
    ),
)
WEB = tool_file(
    "web",
    tool(
        "fetch",
        [{"verb": "connect", "kind": "url", "at": "/url"}],
        {"url": TEXT},
        roles={"/url": "destination"},
        advertised_digest=PINNED,
    ),
    local=False,
    identity="https://web.example.com/mcp",
)
BANK = tool_file(
    "bank",
    tool(
        "transfer",
        [{"verb": "transact", "kind": "id", "type": "account", "at": "/to"}],
        {"to": TEXT, "amount": {"type": "number", "minimum": 0}, "note": {"type": "string", "default": ""}},
        roles={"/to": "destination", "/amount": "amount", "/note": "payload"},
        side_effect="cumulative",
    ),
    tool(
        "mail_send",
        [{"verb": "send", "kind": "email", "at": "/to"}],
        {"to": TEXT, "body": TEXT, "password": {"type": "string", "default": ""}},
        roles={"/to": "destination", "/body": "payload", "/password": "credential"},
        side_effect="cumulative",
    ),
)
TOOLS: Mapping[str, str] = {"fs": FS, "web": WEB, "bank": BANK}


def bundle_files(
    *,
    rules: str | Mapping[str, str] = PERMIT_ALL,
    tools: str | Mapping[str, str] = TOOLS,
    entities: str = ENTITIES,
    credentials: str = CREDENTIALS,
    manifest: str = MANIFEST,
    limits: str | None = None,
) -> dict[str, bytes]:
    """The files of a bundle, by path. `rules` and `tools` are one file or several by name."""
    rule_files = {"main": rules} if isinstance(rules, str) else rules
    tool_files = {"main": tools} if isinstance(tools, str) else tools
    texts = {
        "bundle.yaml": manifest,
        "credentials.yaml": credentials,
        "entities.yaml": entities,
        **({} if limits is None else {"limits.yaml": limits}),
        **{f"rules/{name}.cedar": text for name, text in rule_files.items()},
        **{f"tools/{name}.yaml": text for name, text in tool_files.items()},
    }
    return {name: text.encode() for name, text in texts.items()}


def world(
    rules: str | Mapping[str, str] = PERMIT_ALL, *, protected: Protected | None = None, **files: Any
) -> Ruleset:
    """The ruleset of a bundle; the defaults allow everything to everybody. Raises `BundleError`."""
    sources = BundleSources(files=bundle_files(rules=rules, **files))
    return compile_bundle(sources, protected or Protected())


def faults_of(
    rules: str | Mapping[str, str] = PERMIT_ALL, *, protected: Protected | None = None, **files: Any
) -> tuple[BundleProblem, ...]:
    """Why such a bundle is refused. Fails when it is not."""
    with pytest.raises(BundleError) as caught:
        world(rules, protected=protected, **files)
    assert caught.value.problems
    return caught.value.problems


def fault_of(rules: str | Mapping[str, str] = PERMIT_ALL, **files: Any) -> BundleProblem:
    """The only fault of such a bundle."""
    problems = faults_of(rules, **files)
    assert len(problems) == 1, problems
    return problems[0]


def source(name: str, **more: Any) -> ProvenanceClaim:
    """The claim that a value came from `name`; `labels`, `trust`, `uri` as further arguments."""
    if isinstance(more.get("trust"), str):
        more["trust"] = Trust(more["trust"])
    return ProvenanceClaim(source=name, **{**more, "labels": frozenset(more.get("labels", ()))})


def call(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    /,
    *,
    agent: str = "coder-1",
    user: str | None = "ada",
    session: str | None = "s-1",
    parent_agent: str | None = None,
    provenance: Mapping[str, ProvenanceClaim] | None = None,
    ids: CallIds = IDS,
    cwd: str | None = "/workspace",
    sandbox_root: str | None = "/workspace",
    resolved: Mapping[str, ResolvedPath] | None = None,
    digest: str | None = PINNED,
    ask: bool = False,
    dry_run: bool = False,
    capability: tuple[str, ...] = (),
    proof: str | None = None,
    **more_arguments: Any,
) -> Call:
    """A call of `server/tool`, by a coder in its sandbox. Arguments as a mapping, or by name."""
    server, _, tool_name = name.partition("/")
    return Call(
        subject=Subject(agent=agent, on_behalf_of=user, session=session, parent_agent=parent_agent),
        server=server,
        tool=tool_name,
        advertised_digest=digest,
        arguments={**(arguments or {}), **more_arguments},
        provenance={parse_pointer(pointer): claim for pointer, claim in (provenance or {}).items()},
        ids=ids,
        claims=Claims(cwd=cwd, sandbox_root=sandbox_root, resolved=resolved or {}),
        ask=ask,
        dry_run=dry_run,
        capability=capability,
        proof=proof,
        request_digest="sha256:" + "d" * 64,
    )


def caller_of(ruleset: Ruleset, profile: str | Profile = "runtime") -> Caller:
    """A caller of tenant `acme` with that profile of the bundle."""
    chosen = ruleset.profiles[profile] if isinstance(profile, str) else profile
    return Caller(key_id="key-1", tenant="acme", roles=frozenset({"decide"}), profile=chosen)


def facts(
    ruleset: Ruleset,
    *,
    caller: Caller | None = None,
    now_ms: int = NOW_MS,
    decision_id: str = "d-1",
    operation: OperationRecord | None = None,
    exposed: Iterable[str] = (),
    approvals: ApprovalFacts = NO_APPROVALS,
    reached: tuple[Reached, ...] = (),
    **more: Any,
) -> Facts:
    """What a decision depends on besides the call; `more` are further fields of `Facts`."""
    return Facts(
        caller=caller or caller_of(ruleset),
        ruleset=ruleset,
        now_ms=now_ms,
        decision_id=decision_id,
        operation=operation,
        exposed=frozenset(exposed),
        approvals=approvals,
        secret=b"k" * 32,
        ttl_ms=60_000,
        reached=reached,
        **more,
    )


def decide_in(ruleset: Ruleset, made: Call, **known: Any) -> Outcome:
    """The decision on one call; `known` are arguments of `facts`."""
    return decide(made, facts(ruleset, **known))


def yes_to(ruleset: Ruleset, made: Call, *rules: str, **known: Any) -> ApprovalFacts:
    """A yes, once, to that very call; with `rules`, from people who were shown these alone."""
    outcome = decide_in(ruleset, made, **known)
    return supposed_yes(made, outcome, facts(ruleset, **known), frozenset(rules) if rules else None)


def record_of(ruleset: Ruleset, made: Call, outcome: Outcome) -> dict[str, Any]:
    """The body of the one record that the decision leaves, as it is written."""
    event = decision_event(made, outcome, caller_of(ruleset), ruleset, Redactor(b"r" * 32), NOW_MS)
    body: dict[str, Any] = json.loads(event.body)
    return body


def rules_of(outcome: Outcome) -> list[str]:
    """The names of the rules that determined the decision."""
    return [rule.rule for rule in outcome.decision.matched]
