"""Every argument of a call for the shown document, in canonical order, with its source where it stands."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from authz.core.facts import Facts
from authz.core.pointer import Tokens, format_pointer
from authz.core.provenance import LeafProvenance, judge_leaves
from authz.core.ruleset import Tool
from authz.core.shown_types import Fold, ShownArgument
from authz.core.strict_json import type_names
from authz.core.visible_fold import FOLDED_ROLES, fold, line_count, text_digest
from authz.model.call import Call, ProvenanceClaim

_ABSENT: Final = object()


def shown_arguments(
    call: Call, facts: Facts, tool: Tool, arguments: Mapping[str, Any], exposed: frozenset[str]
) -> list[ShownArgument]:
    """Each leaf of the canonical `arguments`, ordered as RFC 8785 orders names and arrays their items."""
    profile = facts.caller.profile
    judged = judge_leaves(
        call, arguments, tool.roles, profile, exposed, partial(facts.ruleset.returns_of, profile.name)
    )
    by_place = {leaf.tokens: leaf for leaf in judged}
    return [_argument(call, by_place[tokens], value) for tokens, value in canonical_leaves(arguments)]


def canonical_leaves(document: Any, prefix: Tokens = ()) -> Iterator[tuple[Tokens, Any]]:
    """Every scalar, empty array and empty object, members by UTF-16 code units (RFC 8785 3.2.3)."""
    if isinstance(document, Mapping) and document:
        for name in sorted(document, key=lambda name: name.encode("utf-16-be", "surrogatepass")):
            yield from canonical_leaves(document[name], (*prefix, name))
    elif isinstance(document, list) and document:
        for index, item in enumerate(document):
            yield from canonical_leaves(item, (*prefix, str(index)))
    elif prefix:
        yield prefix, document


def _argument(call: Call, leaf: LeafProvenance, value: Any) -> ShownArgument:
    claim = _claim_at(call.provenance, leaf.tokens)
    sent = _sent(call.arguments, leaf.tokens)
    shown = ShownArgument(
        pointer=format_pointer(leaf.tokens),
        role=leaf.role,
        type=type_names[type(value)],
        value=value,
        length=len(value) if isinstance(value, str) else None,
        default=sent is _ABSENT,
        source=leaf.source,
        uri=claim.uri if claim else None,
        call=claim.call if claim else None,
        tool=claim.tool if claim else None,
        untrusted=bool(leaf.untrusted_because),
        untrusted_because=leaf.untrusted_because,
        labels=sorted(claim.labels) if claim else [],
        secret=leaf.secret,
        fold=_fold(value, leaf.role, secret=leaf.secret),
    )
    if leaf.not_believed is not None:
        shown["declared_source"] = leaf.not_believed
    if sent is not _ABSENT and (type(sent) is not type(value) or sent != value):
        shown["sent"] = sent
    return shown


def _fold(value: Any, role: str, *, secret: bool) -> Fold | None:
    """Where the value is folded. A secret is folded whole: it is seen by whoever opens it."""
    if not isinstance(value, str):
        return None
    if secret and role in FOLDED_ROLES:
        return Fold(
            head=0,
            tail=0,
            hidden_characters=len(value),
            length=len(value),
            lines=line_count(value),
            digest=text_digest(value),
        )
    folded = fold(value, role)
    if folded is None:
        return None
    return Fold(
        head=len(folded.shown_head),
        tail=len(folded.shown_tail),
        hidden_characters=folded.hidden_characters,
        length=folded.true_length,
        lines=folded.lines,
        digest=folded.digest,
    )


def _claim_at(claims: Mapping[Tokens, ProvenanceClaim], tokens: Tokens) -> ProvenanceClaim | None:
    """The nearest claim at or above a leaf, as it is judged by."""
    for length in range(len(tokens), -1, -1):
        claim = claims.get(tokens[:length])
        if claim is not None:
            return claim
    return None


def _sent(arguments: Any, tokens: Tokens) -> Any:
    """What the caller wrote at a place; `_ABSENT` where the schema's default filled it in."""
    value = arguments
    for token in tokens:
        if isinstance(value, Mapping):
            if token not in value:
                return _ABSENT
            value = value[token]
        elif isinstance(value, list):
            value = value[int(token)]
    return value
