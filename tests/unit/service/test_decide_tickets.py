"""Tickets: with an allow that asks for one, for the tool server, and never in place of it."""

from dataclasses import replace
from typing import Any

import pytest
from authz_client.capabilities import NOTHING_REVOKED, Ticket, arguments_digest, verify_ticket
from authz_client.capabilities import Refusal as TokenRefusal

from authz.errors import StoreUnavailable
from authz.model.call import Call
from authz.model.decision import Effect
from tests.support.chains import (
    HOLDERS,
    ISSUER,
    ISSUER_KEY,
    NOW_S,
    entry,
    handed_on,
    issued,
    verified,
)
from tests.support.world import world
from tests.unit.service.deciding import Deciding, proved, reading

W = "file:///workspace"
WORLD = world()
DELEGATION = world(
    """
@id("all") permit (principal, action, resource);
@id("needs-one") forbid (principal, action, resource)
when { context.session.delegated && !context.capability.presented };
@id("nothing-read") forbid (principal, action, resource)
when { context.session.exposed.contains("authz:delegated") };
"""
)
ROOT = issued([entry("read", W)])
CHILD = handed_on(ROOT, [entry("read", f"{W}/a")])


async def deciding(ruleset: Any = WORLD, *chains: tuple[str, ...], **parts: Any) -> Deciding:
    found = await Deciding.of(ruleset, **parts)
    for chain in chains or (ROOT,):
        await found.issue(chain)
    return found


def wanting(made: Call) -> Call:
    return replace(made, ticket=True)


def checked(token: str | None, running: Deciding, answer: Any, **changes: Any) -> Ticket | TokenRefusal:
    given: dict[str, Any] = {
        "jwks": {ISSUER_KEY.kid: ISSUER_KEY.public},
        "issuer": ISSUER,
        "audience": "local:fs",
        "fingerprint": answer.decision.fingerprint,
        "arguments": answer.decision.arguments,
        "holder_thumbprint": None,
        "now": running.clock.at_ms // 1000,
        "revoked": NOTHING_REVOKED,
    }
    return verify_ticket(token, **(given | changes))


async def test_an_allow_has_a_ticket_where_one_is_asked_for() -> None:
    running = await deciding()
    made = wanting(reading("/workspace/a"))
    answer = await running.decide(made)
    ticket = checked(answer.ticket, running, answer)
    assert isinstance(ticket, Ticket)
    assert (ticket.tool, ticket.token.jti, ticket.decision_id) == (
        "fs/file_read",
        answer.decision.decision_id,
        answer.decision.decision_id,
    )
    assert (ticket.token.sub, ticket.token.agent, ticket.ancestors) == ("ada", "coder-1", ())
    assert ticket.arguments_digest == arguments_digest({"path": "/workspace/a"})
    # As long as the lease, which is a minute here.
    assert ticket.token.exp == NOW_S + 60
    # A repeat gets one again, for the same decision.
    again = await running.decide(made)
    repeated = checked(again.ticket, running, again)
    assert isinstance(repeated, Ticket)
    assert (again.decision.repeated, repeated.decision_id) == (True, ticket.decision_id)
    assert running.records[0]["ticket"] is True
    assert answer.ticket is not None
    assert not any(answer.ticket in str(record) for record in running.records)


async def test_a_ticket_names_the_holder_and_every_link() -> None:
    running = await deciding()
    answer = await running.decide(wanting(proved(reading("/workspace/a", agent="sub-1"), CHILD)))
    holder = HOLDERS[1].public.thumbprint
    ticket = checked(answer.ticket, running, answer, holder_thumbprint=holder)
    assert isinstance(ticket, Ticket)
    assert [item.link for item in ticket.ancestors] == [link.link_hash for link in verified(CHILD).links]
    assert (ticket.token.sub, ticket.token.agent) == ("ada", "sub-1")
    assert isinstance(checked(answer.ticket, running, answer), TokenRefusal)


async def test_a_ticket_never_outlives_the_capability_or_a_quarter_of_an_hour() -> None:
    short = issued([entry("read", W)], exp=NOW_S + 20)
    running = await deciding(WORLD, short)
    answer = await running.decide(wanting(proved(reading("/workspace/a"), short)))
    holder = HOLDERS[0].public.thumbprint
    ticket = checked(answer.ticket, running, answer, holder_thumbprint=holder)
    assert isinstance(ticket, Ticket)
    assert ticket.token.exp == NOW_S + 20


@pytest.mark.parametrize(
    "made",
    [
        reading("/workspace/a"),
        wanting(replace(reading("/workspace/a"), dry_run=True)),
        wanting(replace(reading("/workspace/a"), ask=True)),
        wanting(reading("/workspace/\x00")),
    ],
)
async def test_nothing_else_has_one(made: Call) -> None:
    running = await deciding()
    assert (await running.decide(made)).ticket is None


class Broken:
    """A signer whose device is away."""

    def sign(self, **_: Any) -> str:
        raise StoreUnavailable("no key", code="keys.none_active")


@pytest.mark.parametrize("tickets", [None, Broken()])
async def test_a_ticket_that_cannot_be_signed_is_no_allow_without_it(tickets: Any) -> None:
    running = await deciding(WORLD, tickets=tickets)
    with pytest.raises(StoreUnavailable):
        await running.decide(wanting(reading("/workspace/a")))
    # Before the commit: nothing was decided, so nothing is on record, and the call is still to be made.
    assert running.records == []
    answer = await running.decide(reading("/workspace/a"))
    assert (answer.decision.effect, answer.ticket) == (Effect.ALLOW, None)
