"""From what Cedar says of a slice to an answer, fail closed: only a clean permit without an ask allows."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import cedarpy

from authz.core.policy.rules import Policy
from authz.core.policy.scopes import scope_actions
from authz.model.decision import Code, Effect, RuleKind, RuleMatch

_FAILED_POLICY = re.compile(r"error while evaluating policy `([^`]+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnswer:
    """What the rules say to one question, and which of them determined it."""

    effect: Effect
    code: Code
    rules: tuple[RuleMatch, ...]
    overruled: tuple[RuleMatch, ...] = ()
    internal: str = ""


@dataclass(slots=True)
class Findings:
    """What the evaluations of all sets of one question came to, put together."""

    policies: Mapping[str, Policy]
    holding: set[str] = field(default_factory=set)
    """Rules that hold. Where a forbid does, nothing is known of the permits and asks of its set."""
    failed: set[str] = field(default_factory=set)
    """Rules that could not be evaluated."""
    broken: str = ""
    """Why there is no answer at all."""
    approving: bool = False
    """Whether it was asked who may approve: nobody is asked about that, and only what names it permits it."""

    def add(self, result: Any) -> None:
        """What Cedar said of one set, or the exception that it raised."""
        if isinstance(result, Exception):
            self.broken = self.broken or f"the engine failed: {type(result).__name__}"
            return
        diagnostics = result.diagnostics
        for error in diagnostics.errors:
            # The text of Cedar's errors echoes entities, so only the names of rules are taken.
            named = _FAILED_POLICY.match(error)
            if named is None or named[1] not in self.policies:
                self.broken = self.broken or "the request could not be evaluated"
            else:
                self.failed.add(named[1])
        if result.decision not in (cedarpy.Decision.Allow, cedarpy.Decision.Deny):
            self.broken = self.broken or "the engine made no decision"
        for name in diagnostics.reasons:
            if name in self.policies:
                self.holding.add(name)
            else:
                self.broken = self.broken or "the engine named a rule that is none"

    def answer(self) -> PolicyAnswer:
        """Permits and hard forbids first; only what they allow can be asked for (spec section 6)."""
        if self.broken:
            return broken(self.broken, self._matches(self.failed))
        failed, failed_asks = self._split(self.failed, RuleKind.ASK)
        if failed:
            return broken("a policy failed to evaluate", self._matches(failed))
        held, asks = self._split(self.holding, RuleKind.ASK)
        permits, forbids = self._split(held, RuleKind.FORBID)
        if self.approving:
            asks = failed_asks = set()
            permits = {name for name in permits if scope_actions(self.policies[name].tree) is not None}
        if forbids:
            return PolicyAnswer(effect=Effect.DENY, code=Code.POLICY_FORBID, rules=self._matches(forbids))
        if not permits:
            return PolicyAnswer(effect=Effect.DENY, code=Code.POLICY_NO_MATCH, rules=())
        if failed_asks:
            return broken("a policy failed to evaluate", self._matches(failed_asks))
        if asks:
            return PolicyAnswer(
                effect=Effect.REQUIRE_APPROVAL,
                code=Code.APPROVAL_REQUIRED,
                rules=self._matches(asks),
                overruled=self._matches(permits),
            )
        return PolicyAnswer(effect=Effect.ALLOW, code=Code.POLICY_PERMIT, rules=self._matches(permits))

    def _split(self, names: set[str], kind: RuleKind) -> tuple[set[str], set[str]]:
        """(the others, those of this kind)."""
        if not names:
            return names, names
        found = {name for name in names if self.policies[name].match.kind is kind}
        return names - found, found

    def _matches(self, names: Iterable[str]) -> tuple[RuleMatch, ...]:
        return tuple(self.policies[name].match for name in sorted(names))


def broken(why: str, rules: tuple[RuleMatch, ...] = ()) -> PolicyAnswer:
    """No answer is a deny."""
    return PolicyAnswer(effect=Effect.DENY, code=Code.POLICY_ERROR, rules=rules, internal=why)
