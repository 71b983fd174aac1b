"""What an approver may choose to remember (spec section 8, "scopes").

Once, always. More only where a repeat can do no more than what was shown: nothing at A3, no destination from
an untrusted source, no rule that asks for a passkey, and nothing whose meaning a later call could change:
what was not understood, an interpreter, a wrapper, a program that nobody described.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from authz.core.canonical.shell.programs import interpreters, packages, scripts, wrappers
from authz.core.provenance import ArgumentProvenance
from authz.core.shown_types import OfferedScope, Part, Reach
from authz.model.approval import AskTerms, Factor
from authz.model.call import Call
from authz.model.decision import Access, Decision, RuleMatch
from authz.model.resource import Authority, Verb
from authz.model.tool import Role

MOST_USES: Final = 10
"""Of one yes to the same call."""
SENDING: Final = frozenset({Verb.SEND, Verb.CONNECT, Verb.TRANSACT})
RUNS_OTHER_CODE: Final = frozenset(
    {*interpreters.PROGRAMS, *wrappers.PROGRAMS, *packages.PROGRAMS, *scripts.PROGRAMS, "find", "git", "tar"}
)
"""Programs that are described and that can run what they are given: never a target of a wider yes."""


def only_once_because(
    accesses: Sequence[Access], rules: Sequence[RuleMatch], provenance: ArgumentProvenance | None
) -> tuple[str, ...]:
    """Why a yes can only be for this call, once; empty where it can be wider. Sentences without a period."""
    return tuple(dict.fromkeys(_reasons(accesses, rules, provenance)))


def _reasons(
    accesses: Sequence[Access], rules: Sequence[RuleMatch], provenance: ArgumentProvenance | None
) -> Iterator[str]:
    if not accesses:
        yield "nothing is known of what the call touches"
    if any(access.authority >= Authority.A3 for access in accesses):
        yield "it changes something outside that cannot be taken back (A3)"
    if any((rule.terms or AskTerms()).factor is Factor.PASSKEY for rule in rules):
        yield "a rule asks for a passkey each time"
    if provenance is None or names_untrusted_destination(accesses, provenance):
        yield "where it goes came from an untrusted source"
    for access in accesses:
        if access.resource.kind == "opaque":
            yield "a part of it is not understood"
        elif access.verb is Verb.EXECUTE and not _is_inert(access):
            yield "it runs a program that can run others, or that nobody has described"


def names_untrusted_destination(accesses: Sequence[Access], provenance: ArgumentProvenance) -> bool:
    """Whether an untrusted value says where data, money or a connection goes."""
    return Role.DESTINATION in provenance.untrusted or any(
        access.verb in SENDING and access.role in provenance.untrusted for access in accesses
    )


def _is_inert(access: Access) -> bool:
    if access.resource.kind != "program" or access.resource.entity.attributes.get("known") is not True:
        return False
    return access.resource.value.partition("/")[0] not in RUNS_OTHER_CODE


def offered_scopes(
    call: Call, decision: Decision, provenance: ArgumentProvenance | None, *, ttl_seconds: int
) -> tuple[OfferedScope, ...]:
    """The choices for a call that is asked for, narrowest first. Each says what will be remembered."""
    once = OfferedScope(
        scope="once", most_uses=1, reach=[], remembers=[_words("This call, once. "), *_ends(ttl_seconds)]
    )
    if only_once_because(decision.accesses, decision.matched, provenance):
        return (once,)
    times = OfferedScope(
        scope="times",
        most_uses=MOST_USES,
        reach=[],
        remembers=[
            _words(
                f"This very call with these very arguments, as often as you say, at most {MOST_USES} times. "
            ),
            *_ends(ttl_seconds),
        ],
    )
    # Without a name for the session there is nothing that a later call could belong to; and a resource with
    # all that lies beneath it would be wider than the names of a pattern that were shown.
    patterned = any(access.pattern is not None for access in decision.accesses)
    if call.subject.session is None or patterned:
        return (once, times)
    return (once, times, _session(call, decision, ttl_seconds))


def reach_of(decision: Decision) -> list[Reach]:
    """What a session's yes covers: the resources that were shown and what lies beneath them, never beside.

    Those that no rule asks about are part of the call as well: a later one may have no others.
    """
    found = {(access.verb.value, access.resource.uri) for access in decision.accesses}
    return [Reach(verb=verb, uri=uri) for verb, uri in sorted(found)]


def _session(call: Call, decision: Decision, ttl_seconds: int) -> OfferedScope:
    reach = reach_of(decision)
    remembers = [
        _words("In the session "),
        _value(call.subject.session or ""),
        _words(", the agent "),
        _value(call.subject.agent),
        _words(" (none of its children) may call "),
        _value(call.tool_name),
        _words(" again without asking, with any other arguments, as long as all it does is to "),
    ]
    for index, one in enumerate(reach):
        remembers += [_words(f"{', or to ' if index else ''}{one['verb']} "), _value(one["uri"])]
        remembers.append(_words(" or what lies beneath it"))
    remembers.append(_words(". "))
    return OfferedScope(
        scope="session", most_uses=None, reach=reach, remembers=[*remembers, *_ends(ttl_seconds)]
    )


def _ends(ttl_seconds: int) -> list[Part]:
    return [_words(f"The yes ends {duration(ttl_seconds)} after it is given.")]


def duration(seconds: int) -> str:
    """`10 minutes`, `1 hour 30 minutes`: exact, never rounded."""
    units = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
    told = []
    for size, name in units:
        count, seconds = divmod(seconds, size)
        if count:
            told.append(f"{count} {name}{'s' if count != 1 else ''}")
    return " ".join(told) or "0 seconds"


def _words(text: str) -> Part:
    return Part(words=text)


def _value(text: str) -> Part:
    return Part(value=text)
