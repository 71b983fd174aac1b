"""Rule files as policies: parsed by Cedar, named by their authors, located by file and line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

import cedarpy
from cedarpy import pst

from authz.core.canonical import canonical_literal
from authz.core.policy_text import PolicyText, hidden_characters, split_policies
from authz.errors import BundleError, BundleProblem
from authz.model.approval import AskTerms, Factor
from authz.model.decision import RuleKind, RuleMatch
from authz.model.resource import NotCanonical, Volume

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TTL = re.compile(r"([1-9]\d{0,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ANNOTATIONS: Final = ("id", "reason", "requires", "approvers", "quorum", "ttl", "factor")
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


def parse_rule_file(path: str, text: str, volumes: Sequence[Volume] = (Volume(),)) -> list[Policy]:
    """The policies of one rule file. Raises `BundleError` with every fault that was found.

    `volumes` are those that the bundle's credential profiles declare: literals are canonical on each.
    """
    problems = [
        BundleProblem(f"{what} in a rule file", file=path, line=line, hint="delete it")
        for line, what in hidden_characters(text)
    ]
    if problems:
        raise BundleError(tuple(problems))
    pieces = split_policies(text)
    policies: list[Policy] = []
    for piece in pieces:
        try:
            policies.append(_policy(path, piece, volumes))
        except BundleError as error:
            problems += error.problems
    if problems:
        raise BundleError(tuple(problems))
    _check_whole(path, text, policies)
    return policies


def _policy(path: str, piece: PolicyText, volumes: Sequence[Volume]) -> Policy:
    def wrong(message: str, hint: str = "") -> BundleError:
        return BundleError((BundleProblem(message, file=path, line=piece.line, hint=hint),))

    try:
        parsed = cedarpy.policies_to_pst(piece.text)
    except ValueError as error:
        raise wrong(f"not a Cedar policy: {first_line(error)}") from None
    if parsed.templates or parsed.template_links:
        raise wrong(
            "a template (`?principal`, `?resource`) has nothing to link it", "write the entity instead"
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
        )
    _check_annotations(annotations, wrong)
    kind, terms = _kind(tree, wrong)
    _check_literals(tree, volumes, wrong)
    match = RuleMatch(
        rule=name, kind=kind, file=path, line=piece.line, reason=annotations.get("reason", ""), terms=terms
    )
    return Policy(match=match, tree=replace(tree, id=name), text=piece.text)


def _check_annotations(annotations: Mapping[str, str], wrong: Any) -> None:
    """A team's own annotations are its own; one that is nearly ours is a slip that would be lost."""
    for name in annotations.keys() - set(_ANNOTATIONS):
        close = get_close_matches(name.casefold(), _ANNOTATIONS, n=1, cutoff=0.75)
        if close:
            raise wrong(f"`@{name}` is no annotation of ours", f"did you mean `@{close[0]}`?")


def _kind(tree: pst.Template, wrong: Any) -> tuple[RuleKind, AskTerms | None]:
    annotations = tree.annotations
    requires = annotations.get("requires")
    if requires is None:
        stray = sorted(_ASK_ANNOTATIONS & annotations.keys())
        if stray:
            raise wrong(f"`@{stray[0]}` on a rule that does not ask", 'add @requires("approval") to a forbid')
        return (RuleKind.PERMIT if tree.effect == "permit" else RuleKind.FORBID), None
    if requires != "approval":
        raise wrong(f"`@requires({requires!r})` is unknown", 'write @requires("approval")')
    if tree.effect != "forbid":
        raise wrong('`@requires("approval")` on a permit', "tag a forbid: it is what an approval lifts")
    return RuleKind.ASK, _terms(annotations, wrong)


def _terms(annotations: Mapping[str, str], wrong: Any) -> AskTerms:
    approvers = tuple(part.strip() for part in annotations.get("approvers", "").split(",") if part.strip())
    if "approvers" in annotations and not approvers:
        raise wrong("`@approvers` names nobody", 'write @approvers("Group::\\"finance\\"")')
    for approver in approvers:
        if not re.fullmatch(r'(Group|User)::"[^"\\]+"', approver):
            raise wrong(
                f"`@approvers` has `{approver}`, which is no Group or User", 'write Group::\\"finance\\"'
            )
    quorum = annotations.get("quorum", "1")
    if not re.fullmatch(r"[1-9]\d?", quorum):
        raise wrong(f"`@quorum` must be 1 to 99, not `{quorum}`")
    ttl = annotations.get("ttl")
    found = _TTL.fullmatch(ttl) if ttl is not None else None
    if ttl is not None and not found:
        raise wrong(f"`@ttl` must be a number and a unit, not `{ttl}`", 'write @ttl("10m")')
    factor = annotations.get("factor", Factor.SESSION.value)
    if factor not in list(Factor):
        raise wrong(f"`@factor` must be one of {', '.join(Factor)}, not `{factor}`")
    return AskTerms(
        approvers=approvers,
        quorum=int(quorum),
        ttl_seconds=int(found[1]) * _SECONDS[found[2]] if found else None,
        factor=Factor(factor),
    )


def _check_literals(tree: pst.Template, volumes: Sequence[Volume], wrong: Any) -> None:
    """Literals are not rewritten: one that is not canonical could never match, so it is refused."""
    for uid in sorted(pst.entity_uids(tree), key=str):
        spellings = [canonical_literal(str(uid.type), uid.id, volume=volume) for volume in volumes]
        for canonical in spellings:
            if isinstance(canonical, NotCanonical):
                raise wrong(f"`{uid}` can never match: {canonical.message}")
            # On every volume: a forbid that held on one only would be none for callers on the other.
            if canonical != uid.id:
                raise wrong(
                    f"`{uid}` is not canonical and can never match", f'write {uid.type}::"{canonical}"'
                )


def _check_whole(path: str, text: str, policies: Sequence[Policy]) -> None:
    """The pieces must be the file: a split that Cedar would not make could hide or add a rule."""
    try:
        whole = cedarpy.policies_to_pst(text)
    except ValueError as error:
        raise BundleError((BundleProblem(f"not Cedar: {first_line(error)}", file=path),)) from None
    expected = [
        replace(whole.static_policies[f"policy{n}"], id="") for n in range(len(whole.static_policies))
    ]
    if whole.templates or expected != [replace(policy.tree, id="") for policy in policies]:
        raise BundleError(
            (BundleProblem("the file reads differently as a whole than by its rules", file=path),)
        )


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]


def check_unique(policies: Sequence[Policy]) -> None:
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
                )
            )
    if problems:
        raise BundleError(tuple(problems))


def validate(policies: Sequence[Policy], schema: Any) -> None:
    """Cedar's own validation, strict, over every policy; findings get their file and line back."""
    text = "\n".join(policy.text for policy in policies)
    result = cedarpy.validate_policies(text, schema)
    if result.validation_passed:
        return
    problems = []
    for error in result.errors:
        found = re.fullmatch(r"policy(\d+)", error.policy_id)
        message = str(error.error).replace(f"for policy `{error.policy_id}`, ", "")
        if found and int(found[1]) < len(policies):
            match = policies[int(found[1])].match
            problems.append(
                BundleProblem(f"`{match.rule}`: {message}", file=match.file or "", line=match.line)
            )
        else:
            problems.append(BundleProblem(message, file="rules"))
    raise BundleError(tuple(problems) or (BundleProblem("validation failed", file="rules"),))
