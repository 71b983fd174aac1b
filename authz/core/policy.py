"""The Cedar engine, fail closed (spec section 6). The only importer of cedarpy.

Permits and hard forbids are one policy set; the forbids tagged `@requires("approval")` plus a
blanket permit are a second one, evaluated only when the first allows. Cedar reports every
determining forbid, so each asking rule is named.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final

import cedarpy
from cedarpy import pst

from authz.core.canonical import canonical_literal
from authz.core.cedar_context import FIELDS, Reads
from authz.core.cedar_schema import Action, evaluation_schema
from authz.core.policy_text import PolicyText, hidden_characters, split_policies
from authz.errors import BundleError, BundleProblem
from authz.model.approval import AskTerms, Factor
from authz.model.decision import Code, Effect, RuleKind, RuleMatch
from authz.model.resource import NotCanonical

BLANKET_PERMIT: Final = "authz:asked-for"
"""Id of the permit that carries the second set. No `@id` can equal it: a colon is not allowed there."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FAILED_POLICY = re.compile(r"error while evaluating policy `([^`]+)`")
_TTL = re.compile(r"([1-9]\d{0,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One evaluation: may this principal exercise this action on this resource?"""

    principal: tuple[str, str]
    action: str
    resource: tuple[str, str]
    context: Callable[[Reads], str]
    """Gives the context, or the part of it that rules read, as Cedar JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What one action is evaluated with: all that could matter to it, and nothing else."""

    settled: Any
    """Permits and hard forbids whose action scope could match."""
    asking: Any | None
    """Asking forbids whose action scope could match, plus the blanket permit."""
    reads: Reads
    schema: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnswer:
    """What the rules say to one question, and which of them determined it."""

    effect: Effect
    code: Code
    rules: tuple[RuleMatch, ...]
    overruled: tuple[RuleMatch, ...] = ()
    internal: str = ""


def parse_rule_file(path: str, text: str) -> list[Policy]:
    """The policies of one rule file. Raises `BundleError` with every fault that was found."""
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
            policies.append(_policy(path, piece))
        except BundleError as error:
            problems += error.problems
    if problems:
        raise BundleError(tuple(problems))
    _check_whole(path, text, policies)
    return policies


def _policy(path: str, piece: PolicyText) -> Policy:
    def wrong(message: str, hint: str = "") -> BundleError:
        return BundleError((BundleProblem(message, file=path, line=piece.line, hint=hint),))

    try:
        parsed = cedarpy.policies_to_pst(piece.text)
    except ValueError as error:
        raise wrong(f"not a Cedar policy: {_first_line(error)}") from None
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
    kind, terms = _kind(tree, wrong)
    _check_literals(tree, wrong)
    match = RuleMatch(
        rule=name, kind=kind, file=path, line=piece.line, reason=annotations.get("reason", ""), terms=terms
    )
    return Policy(match=match, tree=replace(tree, id=name), text=piece.text)


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


def _check_literals(tree: pst.Template, wrong: Any) -> None:
    """Literals are not rewritten: one that is not canonical could never match, so it is refused."""
    for uid in sorted(pst.entity_uids(tree), key=str):
        canonical = canonical_literal(str(uid.type), uid.id)
        if isinstance(canonical, NotCanonical):
            raise wrong(f"`{uid}` can never match: {canonical.message}")
        if canonical != uid.id:
            raise wrong(f"`{uid}` is not canonical and can never match", f'write {uid.type}::"{canonical}"')


def _check_whole(path: str, text: str, policies: Sequence[Policy]) -> None:
    """The pieces must be the file: a split that Cedar would not make could hide or add a rule."""
    try:
        whole = cedarpy.policies_to_pst(text)
    except ValueError as error:
        raise BundleError((BundleProblem(f"not Cedar: {_first_line(error)}", file=path),)) from None
    expected = [
        replace(whole.static_policies[f"policy{n}"], id="") for n in range(len(whole.static_policies))
    ]
    if whole.templates or expected != [replace(policy.tree, id="") for policy in policies]:
        raise BundleError(
            (BundleProblem("the file reads differently as a whole than by its rules", file=path),)
        )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]


class PolicyEngine:
    """A validated set of policies against one schema. Immutable; evaluation holds no state."""

    def __init__(self, policies: Sequence[Policy], schema_text: str, actions: Iterable[Action]) -> None:
        """Raises `BundleError` for duplicate ids and for every policy that the schema refuses."""
        _check_unique(policies)
        self.policies = {policy.id: policy for policy in policies}
        try:
            self._schema = cedarpy.Schema.from_str(schema_text)
        except ValueError as error:
            raise BundleError(
                (BundleProblem(f"the generated schema is invalid: {_first_line(error)}", file="tools"),)
            ) from None
        _validate(policies, self._schema)
        self._actions = {action.id: action for action in actions}
        self._prepared: dict[str, _Prepared] = {}
        self._built: dict[frozenset[str], Any] = {}
        self.literals_to_load = frozenset(
            literal
            for policy in policies
            for clause in policy.tree.clauses
            for literal in _loaded(clause.expr)
        )
        """Literals whose own parents or attributes a condition reads: Cedar must be handed them."""

    def evaluate(self, questions: Sequence[Question], entities: str) -> list[PolicyAnswer]:
        """Answer every question over the same entities (Cedar JSON text). Never raises for a request.

        Anything but a clean Allow or Deny from Cedar is a deny with `policy.error`: an erroring
        forbid, which Cedar skips, must not vanish.
        """
        answers: list[PolicyAnswer | None] = [None] * len(questions)
        by_action: dict[str, list[int]] = {}
        for index, question in enumerate(questions):
            by_action.setdefault(question.action, []).append(index)
        for action, indices in by_action.items():
            asked = [questions[index] for index in indices]
            for index, answer in zip(indices, self._answer(action, asked, entities), strict=True):
                answers[index] = answer
        return [answer if answer is not None else _broken("no answer") for answer in answers]

    def _answer(self, action: str, questions: list[Question], entities: str) -> list[PolicyAnswer]:
        if action not in self._actions:
            return [_broken("the action is not in the schema")] * len(questions)
        prepared = self._prepare(action)
        try:
            requests = [_request(question, prepared.reads) for question in questions]
        except (TypeError, ValueError):
            return [_broken("the arguments could not be encoded")] * len(questions)
        results = _ask_cedar(requests, prepared.settled, entities, prepared.schema)
        answers = [self._first(result) for result in results]
        if prepared.asking is not None:
            allowed = [index for index, answer in enumerate(answers) if answer.effect is Effect.ALLOW]
            asked = [requests[index] for index in allowed]
            results = _ask_cedar(asked, prepared.asking, entities, prepared.schema)
            for index, result in zip(allowed, results, strict=True):
                answers[index] = self._second(answers[index], result)
        return answers

    def _first(self, result: Any) -> PolicyAnswer:
        """What permits and hard forbids say."""
        broken = self._trouble(result)
        if broken is not None:
            return broken
        rules = self._rules(result.diagnostics.reasons)
        if result.decision is cedarpy.Decision.Allow and rules:
            return PolicyAnswer(effect=Effect.ALLOW, code=Code.POLICY_PERMIT, rules=rules)
        code = Code.POLICY_FORBID if rules else Code.POLICY_NO_MATCH
        return PolicyAnswer(effect=Effect.DENY, code=code, rules=rules)

    def _second(self, permitted: PolicyAnswer, result: Any) -> PolicyAnswer:
        """What asking rules say of something that permits allow."""
        broken = self._trouble(result)
        if broken is not None:
            return broken
        if result.decision is cedarpy.Decision.Allow:
            return permitted
        rules = self._rules(result.diagnostics.reasons)
        if not rules:
            return _broken("a deny without a rule")
        return PolicyAnswer(
            effect=Effect.REQUIRE_APPROVAL,
            code=Code.APPROVAL_REQUIRED,
            rules=rules,
            overruled=permitted.rules,
        )

    def _trouble(self, result: Any) -> PolicyAnswer | None:
        if isinstance(result, Exception):
            return _broken(f"the engine failed: {type(result).__name__}")
        errors = result.diagnostics.errors
        if errors:
            # The text of Cedar's errors echoes entities, so only the names of rules are taken.
            failed = {found[1] for error in errors if (found := _FAILED_POLICY.match(error))}
            named = self._rules(failed)
            return PolicyAnswer(
                effect=Effect.DENY,
                code=Code.POLICY_ERROR,
                rules=named,
                internal="a policy failed to evaluate" if named else "the request could not be evaluated",
            )
        if result.decision not in (cedarpy.Decision.Allow, cedarpy.Decision.Deny):
            return _broken("the engine made no decision")
        return None

    def _rules(self, ids: Iterable[str]) -> tuple[RuleMatch, ...]:
        return tuple(self.policies[name].match for name in sorted(ids) if name in self.policies)

    def could_allow(
        self, principal: tuple[str, str], action: str, entities: str
    ) -> tuple[bool, tuple[RuleMatch, ...]]:
        """Whether any resource and context could make this action anything but a deny.

        Cedar evaluates with the resource and the context unknown. That is a preview: only its
        certain deny is used, to hide a tool; what is shown is still decided in full.
        """
        settled = self._prepare(action).settled
        try:
            result = cedarpy.is_authorized_partial(
                {"principal": _uid(principal), "action": _uid(("Action", action))},
                settled,
                entities,
                schema=self._schema,
            )
        except Exception:  # noqa: BLE001 - unsure means shown, and then decided in full
            return True, ()
        if result.decision is cedarpy.Decision.Deny and not result.diagnostics.errors:
            return False, self._rules(result.diagnostics.reasons)
        return True, ()

    def _prepare(self, action: str) -> _Prepared:
        """What could matter to this action.

        A policy whose action scope does not match is false before any of it is evaluated, so it
        can neither decide nor fail: leaving it out changes nothing. The same holds for a context
        field that none of the rest reads.
        """
        prepared = self._prepared.get(action)
        if prepared is None:
            names = frozenset((action, *self._actions[action].groups))
            matching = [policy for policy in self.policies.values() if _action_matches(policy.tree, names)]
            asks = [policy for policy in matching if policy.match.kind is RuleKind.ASK]
            reads = context_reads(policy.tree for policy in matching)
            prepared = _Prepared(
                settled=self._build([policy for policy in matching if policy.match.kind is not RuleKind.ASK]),
                asking=self._build(asks, blanket=True) if asks else None,
                reads=reads,
                schema=cedarpy.Schema.from_str(evaluation_schema(self._actions[action], reads)),
            )
            self._prepared[action] = prepared
        return prepared

    def _build(self, policies: list[Policy], *, blanket: bool = False) -> Any:
        key = frozenset(policy.id for policy in policies) | ({BLANKET_PERMIT} if blanket else frozenset())
        built = self._built.get(key)
        if built is None:
            trees = {policy.id: policy.tree for policy in policies}
            if blanket:
                trees[BLANKET_PERMIT] = _BLANKET
            built = cedarpy.PolicySet.from_pst(
                pst.PolicySet(templates={}, static_policies=trees, template_links=())
            )
            self._built[key] = built
        return built


_BLANKET: Final = pst.Template(
    id=BLANKET_PERMIT,
    effect="permit",
    principal=pst.ScopeAny(),
    action=pst.ScopeAny(),
    resource=pst.ScopeAny(),
    clauses=(),
    annotations={},
)


def _broken(why: str) -> PolicyAnswer:
    return PolicyAnswer(effect=Effect.DENY, code=Code.POLICY_ERROR, rules=(), internal=why)


def _uid(entity: tuple[str, str]) -> dict[str, str]:
    return {"type": entity[0], "id": entity[1]}


def _ask_cedar(requests: list[dict[str, Any]], policies: Any, entities: str, schema: Any) -> list[Any]:
    if not requests:
        return []
    try:
        return list(cedarpy.is_authorized_batch(requests, policies, entities, schema=schema))
    except Exception as error:  # noqa: BLE001 - whatever the engine does, the answer is a deny
        return [error] * len(requests)


def _request(question: Question, reads: Reads) -> dict[str, Any]:
    return {
        "principal": _uid(question.principal),
        "action": _uid(("Action", question.action)),
        "resource": _uid(question.resource),
        "context": question.context(reads),
    }


def _action_matches(tree: pst.Template, names: frozenset[str]) -> bool:
    scope = tree.action
    if isinstance(scope, pst.ActionEq):
        return scope.entity.id in names
    if isinstance(scope, pst.ActionIn):
        return any(entity.id in names for entity in scope.entities)
    return True


def context_reads(trees: Iterable[pst.Template]) -> Reads:
    """What of the context these policies read. A use of `context` as a whole reads all of it."""
    found: dict[str, set[str] | None] = {}
    for tree in trees:
        for clause in tree.clauses:
            for name, member in _context_paths(clause.expr):
                if name is None:
                    found.update(dict.fromkeys(("arguments", *FIELDS)))
                elif member is None:
                    found[name] = None
                elif (members := found.setdefault(name, set())) is not None:
                    members.add(member)
    return {name: None if members is None else frozenset(members) for name, members in sorted(found.items())}


def _context_paths(node: Any) -> Iterator[tuple[str | None, str | None]]:
    """(field, member) of every use of the context under `node`; `None` stands for the whole."""
    path = _context_path(node)
    if path is not None:
        yield (path[0] if path else None), (path[1] if len(path) > 1 else None)
    elif isinstance(node, Mapping):
        for value in node.values():
            yield from _context_paths(value)
    elif isinstance(node, tuple):
        for value in node:
            yield from _context_paths(value)
    elif is_dataclass(node) and not isinstance(node, type):
        for field in fields(node):
            yield from _context_paths(getattr(node, field.name))


def _context_path(node: Any) -> tuple[str, ...] | None:
    """The attribute path of an expression that starts at `context`, or `None` for another one."""
    if isinstance(node, pst.Var):
        return () if node.name == "context" else None
    if isinstance(node, pst.GetAttr):
        base = _context_path(node.base)
        return None if base is None else (*base, node.attr)
    if isinstance(node, pst.HasAttr):
        base = _context_path(node.base)
        return None if base is None else (*base, *node.attrs)
    return None


def _loaded(node: Any) -> Iterator[tuple[str, str]]:
    """Literals under `node` that are looked into, not only compared with.

    `principal in Group::"a"` needs nothing of the group itself; `Group::"a" in Group::"b"` and
    `User::"x".hasTag("y")` do. Whatever is not clearly a comparison counts as looked into.
    """
    if isinstance(node, pst.EntityLit):
        yield str(node.value.type), node.value.id
    elif isinstance(node, pst.BinaryOp) and node.op in ("in", "eq", "not_eq", "contains"):
        sides = (node.right,) if node.op in ("in", "contains") else (node.left, node.right)
        yield from (
            found
            for side in (node.left, node.right)
            if not (any(side is one for one in sides) and _only_literals(side))
            for found in _loaded(side)
        )
    elif isinstance(node, Mapping):
        for value in node.values():
            yield from _loaded(value)
    elif isinstance(node, tuple):
        for value in node:
            yield from _loaded(value)
    elif is_dataclass(node) and not isinstance(node, type):
        for field in fields(node):
            yield from _loaded(getattr(node, field.name))


def _only_literals(node: Any) -> bool:
    return isinstance(node, pst.EntityLit) or (
        isinstance(node, pst.Set) and all(isinstance(element, pst.EntityLit) for element in node.elements)
    )


def _check_unique(policies: Sequence[Policy]) -> None:
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


def _validate(policies: Sequence[Policy], schema: Any) -> None:
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
