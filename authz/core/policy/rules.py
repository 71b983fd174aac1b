"""Rule files as policies: parsed by Cedar, named by their authors, located by file and line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

import cedarpy
from cedarpy import pst

from authz.core.canonical import canonical_literal
from authz.core.policy.trees import entity_uids
from authz.core.policy_nesting import too_deep
from authz.core.policy_text import PolicyText, hidden_characters, split_policies
from authz.core.steps import Step, go_on, stepwise
from authz.errors import BundleError, BundleProblem
from authz.model.approval import AskTerms, Factor
from authz.model.decision import RuleKind, RuleMatch
from authz.model.resource import NotCanonical, Volume

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TTL = re.compile(r"([1-9]\d{0,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ANNOTATIONS: Final = ("id", "reason", "requires", "approvers", "quorum", "ttl", "factor", "lint_allow")
_PLAIN_SPACE: Final = " \t\n"
_SHALLOWER: Final = "write a set and `.contains(…)`, or split it into several rules"
_ASK_ANNOTATIONS: Final = frozenset({"approvers", "quorum", "ttl", "factor"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One rule: its name, where it stands, what it does, and its tree."""

    match: RuleMatch
    tree: pst.Template
    text: str

    @property
    def id(self) -> str:
        return self.match.rule


NOTHING_KNOWN: Final[Mapping[str, Policy]] = MappingProxyType({})


def parse_rule_file(path: str, text: str, volumes: Sequence[Volume] = (Volume(),)) -> list[Policy]:
    """The policies of one rule file. Raises `BundleError` with every fault that was found.

    `volumes` are those that the bundle's credential profiles declare: literals are canonical on each.
    """
    policies, problems = read_rule_file(path, text, volumes)
    if problems:
        raise BundleError(tuple(problems))
    return policies


def read_rule_file(
    path: str,
    text: str,
    volumes: Sequence[Volume] = (Volume(),),
    *,
    tried: bool = False,
    known: Mapping[str, Policy] = NOTHING_KNOWN,
    step: Step = go_on,
) -> tuple[list[Policy], list[BundleProblem]]:
    """The policies of one rule file that can be read, and every fault of the file.

    Where there are faults, the policies are for finding more of them: nothing may be decided by them.
    Of a text that was `tried`, which passed all of this before, the file as a whole is not looked at again.
    Rules that are `known` are not read again: policies by their text, as they were read for these `volumes`.
    """
    problems = [
        BundleProblem(
            f"{what} in a rule file", file=path, line=line, hint="delete it", code="text.hidden-character"
        )
        for line, what in (() if tried else hidden_characters(text))
    ]
    if problems:
        # Where a rule begins cannot be told for sure, so none of them is read.
        return [], problems
    policies: list[Policy] = []
    pieces = split_policies(text, step)
    for piece in stepwise(pieces, step):
        read = known.get(piece.text)
        if read is not None:
            policies.append(_moved(read, path, piece.line))
            continue
        deep = too_deep(piece.text)
        if deep:
            # Cedar must not see it: its parser would end the process.
            problems.append(
                BundleProblem(deep, file=path, line=piece.line, hint=_SHALLOWER, code="rule.too-deep")
            )
            continue
        try:
            policies.append(_policy(path, piece, volumes, problems))
        except BundleError as error:
            problems += error.problems
    if not tried and not problems:
        problems += _differs_as_a_whole(path, text, pieces, policies)
    return policies, problems


def _moved(policy: Policy, path: str, line: int) -> Policy:
    """The same rule where it stands now: all else follows from its text."""
    if (policy.match.file, policy.match.line) == (path, line):
        return policy
    return replace(policy, match=replace(policy.match, file=path, line=line))


def _policy(path: str, piece: PolicyText, volumes: Sequence[Volume], problems: list[BundleProblem]) -> Policy:
    """One policy. Raises `BundleError` when it cannot be read; lesser faults are added to `problems`."""

    def wrong(message: str, hint: str = "", code: str = "rule.parse") -> BundleError:
        return BundleError((BundleProblem(message, file=path, line=piece.line, hint=hint, code=code),))

    try:
        parsed = cedarpy.policies_to_pst(piece.text)
    except ValueError as error:
        if "nesting exceeds" in str(error):
            raise wrong("the rule is nested too deeply for Cedar", _SHALLOWER, "rule.too-deep") from None
        raise wrong(f"not a Cedar policy: {first_line(error)}") from None
    if parsed.templates or parsed.template_links:
        raise wrong(
            "a template (`?principal`, `?resource`) has nothing to link it",
            "write the entity instead",
            "rule.template",
        )
    if len(parsed.static_policies) != 1:
        raise wrong("expected one policy ending in `;`")
    tree = next(iter(parsed.static_policies.values()))
    annotations = tree.annotations
    name = annotations.get("id", "")
    if not _ID.fullmatch(name):
        raise wrong(
            "a policy without a usable `@id`" if not name else f"`{name[:60]}` is no usable `@id`",
            'start it with @id("letters-digits-and-dashes")',
            "rule.id-bad" if name else "rule.id-missing",
        )
    _check_annotations(annotations, wrong)
    kind, terms = _kind(tree, wrong)
    try:
        _check_literals(tree, volumes, wrong)
    except BundleError as error:
        # The rule can be read, so whatever else is wrong with it can be told too.
        problems += error.problems
    match = RuleMatch(
        rule=name, kind=kind, file=path, line=piece.line, reason=annotations.get("reason", ""), terms=terms
    )
    return Policy(match=match, tree=replace(tree, id=name), text=piece.text)


def _check_annotations(annotations: Mapping[str, str], wrong: Any) -> None:
    """A team's own annotations are its own; one that is nearly ours is a slip that would be lost."""
    for name in annotations.keys() - set(_ANNOTATIONS):
        close = get_close_matches(name.casefold(), _ANNOTATIONS, n=1, cutoff=0.75)
        if close:
            raise wrong(
                f"`@{name}` is no annotation of ours", f"did you mean `@{close[0]}`?", "rule.annotation-typo"
            )


def _kind(tree: pst.Template, wrong: Any) -> tuple[RuleKind, AskTerms | None]:
    annotations = tree.annotations
    requires = annotations.get("requires")
    if requires is None:
        stray = sorted(_ASK_ANNOTATIONS & annotations.keys())
        if stray:
            raise wrong(
                f"`@{stray[0]}` on a rule that does not ask",
                'add @requires("approval") to a forbid',
                "rule.ask-terms",
            )
        return (RuleKind.PERMIT if tree.effect == "permit" else RuleKind.FORBID), None
    if requires != "approval":
        raise wrong(f"`@requires({requires!r})` is unknown", 'write @requires("approval")', "rule.ask-terms")
    if tree.effect != "forbid":
        raise wrong(
            '`@requires("approval")` on a permit',
            "tag a forbid: it is what an approval lifts",
            "rule.ask-terms",
        )
    return RuleKind.ASK, _terms(annotations, wrong)


def _terms(annotations: Mapping[str, str], wrong: Any) -> AskTerms:
    approvers = tuple(part.strip() for part in annotations.get("approvers", "").split(",") if part.strip())
    if "approvers" in annotations and not approvers:
        raise wrong("`@approvers` names nobody", 'write @approvers("Group::\\"finance\\"")', "rule.ask-terms")
    for approver in approvers:
        if not re.fullmatch(r'(Group|User)::"[^"\\]+"', approver):
            raise wrong(
                f"`@approvers` has `{approver}`, which is no Group or User",
                'write Group::\\"finance\\"',
                "rule.ask-terms",
            )
    quorum = annotations.get("quorum", "1")
    if not re.fullmatch(r"[1-9]\d?", quorum):
        raise wrong(f"`@quorum` must be 1 to 99, not `{quorum}`", 'write @quorum("2")', "rule.ask-terms")
    ttl = annotations.get("ttl")
    found = _TTL.fullmatch(ttl) if ttl is not None else None
    if ttl is not None and not found:
        raise wrong(f"`@ttl` must be a number and a unit, not `{ttl}`", 'write @ttl("10m")', "rule.ask-terms")
    factor = annotations.get("factor", Factor.SESSION.value)
    if factor not in list(Factor):
        raise wrong(
            f"`@factor` must be one of {', '.join(Factor)}, not `{factor}`",
            'write @factor("passkey")',
            "rule.ask-terms",
        )
    return AskTerms(
        approvers=approvers,
        quorum=int(quorum),
        ttl_seconds=int(found[1]) * _SECONDS[found[2]] if found else None,
        factor=Factor(factor),
    )


def _check_literals(tree: pst.Template, volumes: Sequence[Volume], wrong: Any) -> None:
    """Literals are not rewritten: one that is not canonical could never match, so it is refused."""
    found: list[BundleProblem] = []
    for uid in sorted(entity_uids(tree), key=str):
        for volume in volumes:
            canonical = canonical_literal(str(uid.type), uid.id, volume=volume)
            problem: BundleError | None = None
            if isinstance(canonical, NotCanonical):
                problem = wrong(f"`{uid}` can never match: {canonical.message}", "", "rule.not-canonical")
            # On every volume: a forbid that held on one only would be none for callers on the other.
            elif canonical != uid.id:
                problem = wrong(
                    f"`{uid}` is not canonical and can never match",
                    f'write {uid.type}::"{canonical}"',
                    "rule.not-canonical",
                )
            if problem is not None:
                found += problem.problems
                break
    if found:
        raise BundleError(tuple(found))


def _differs_as_a_whole(
    path: str, text: str, pieces: Sequence[PolicyText], policies: Sequence[Policy]
) -> list[BundleProblem]:
    """The pieces must be the file: a split that Cedar would not make could hide or add a rule.

    A policy ends with a semicolon, which is a token that nothing after it can change. So the file reads as
    its parts do, from each semicolon to the next, and Cedar is asked what it reads in those that are more
    than a policy and plain white space. In small steps, for each stops every other thread.
    """
    at = 0
    for piece, policy in zip(pieces, policies, strict=True):
        between = text[at : piece.start]
        if between.strip(_PLAIN_SPACE) and _trees(between + piece.text) != [replace(policy.tree, id="")]:
            return [_differs(path, piece.line)]
        at = piece.end
    if text[at:].strip(_PLAIN_SPACE) and _trees(text[at:]) != []:
        return [_differs(path, None)]
    return []


def _trees(text: str) -> list[pst.Template] | None:
    """The policies that Cedar reads in a text, without names; `None` for anything else."""
    try:
        parsed = cedarpy.policies_to_pst(text)
    except ValueError:
        return None
    return None if parsed.templates else [replace(tree, id="") for tree in parsed.static_policies.values()]


def _differs(path: str, line: int | None) -> BundleProblem:
    return BundleProblem(
        "the file reads differently as a whole than by its rules", file=path, line=line, code="rule.parse"
    )


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]


def repeated_ids(policies: Sequence[Policy]) -> list[BundleProblem]:
    """A problem for every policy whose `@id` an earlier one has."""
    seen: dict[str, Policy] = {}
    problems = []
    for policy in policies:
        first = seen.setdefault(policy.id, policy)
        if first is not policy:
            problems.append(
                BundleProblem(
                    f"`@id({policy.id!r})` is already used at {first.match.file}:{first.match.line}",
                    file=policy.match.file or "",
                    line=policy.match.line,
                    hint="ids name decisions, so each is used once",
                    code="rule.id-duplicate",
                )
            )
    return problems
