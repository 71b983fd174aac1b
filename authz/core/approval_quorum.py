"""When the people of every asking rule have spoken (spec section 6).

Several asking rules: the quorum of each is met by its own people, and every yes has the strongest factor. One
person counts once for a rule, and may count for several rules.
"""

import unicodedata
from collections.abc import Iterable, Set
from typing import Final

from authz.model.approval import AskTerms, Factor
from authz.model.approval_request import Vote
from authz.model.decision import RuleMatch

_STRENGTH: Final = {Factor.SESSION: 0, Factor.PASSKEY: 1}


def strongest_factor(rules: Iterable[RuleMatch]) -> Factor:
    """The factor that every yes needs."""
    return max((_terms(rule).factor for rule in rules), key=_STRENGTH.__getitem__, default=Factor.PASSKEY)


def is_as_strong(factor: Factor, needed: Factor) -> bool:
    """Whether a verified factor does where `needed` is asked for."""
    return _STRENGTH[factor] >= _STRENGTH[needed]


def is_approver(entities: Set[str], rule: RuleMatch) -> bool:
    """Whether one of these is among the rule's `@approvers`; without any, whoever policy lets approve."""
    approvers = _terms(rule).approvers
    return not approvers or not entities.isdisjoint(approvers)


def unmet_rules(rules: Iterable[RuleMatch], votes: Iterable[Vote]) -> tuple[str, ...]:
    """Names of the rules whose quorum these votes do not meet."""
    rules, votes = tuple(rules), tuple(votes)
    needed = strongest_factor(rules)
    strong = [vote for vote in votes if is_as_strong(vote.factor, needed)]
    return tuple(rule.rule for rule in rules if _people(rule, strong) < _terms(rule).quorum)


def is_met(rules: Iterable[RuleMatch], votes: Iterable[Vote]) -> bool:
    """Whether every quorum is met. No rules at all are met by nobody."""
    rules = tuple(rules)
    return bool(rules) and not unmet_rules(rules, votes)


def _people(rule: RuleMatch, votes: Iterable[Vote]) -> int:
    return len({person_key(vote.person) for vote in votes if is_approver(vote.entities, rule)})


def person_key(person: str) -> str:
    """By what two spellings of a person's name are one person: rather too often than not."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", person).casefold())


def _terms(rule: RuleMatch) -> AskTerms:
    return rule.terms or AskTerms()
