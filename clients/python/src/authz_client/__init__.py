"""Asks the authz service whether a call of an agent may run. Holds no policy of its own.

    with Client("http://localhost:8700", api_key=key) as client:
        decision = client.decide(request)

To run tools under its decisions: `authz_client.guard`. For tool servers: `authz_client.endpoint`.

No answer is an allow but `Decision.allowed`; every failure to get one is a `DecisionUnavailable`.
"""

import typing as _typing

from authz_client.errors import (
    DecisionUnavailable,
    MalformedAnswer,
    RequestNotEncodable,
    RequestRefused,
    ServerFailure,
    Timeout,
    Unreachable,
)
from authz_client.model import (
    Access,
    Approval,
    ArgumentError,
    Asked,
    CapabilityRefusal,
    ClaimedPath,
    Decision,
    Effect,
    Lease,
    MatchedRule,
    Obligation,
)
from authz_client.outcomes import (
    ApprovalState,
    ApprovalStatus,
    Operation,
    OperationState,
    Outcome,
    Standing,
)

if _typing.TYPE_CHECKING:
    from authz_client.client import AsyncClient, Client
else:

    def __getattr__(name: str) -> object:
        """The clients, once they are asked for: a hook that runs for every tool call goes without `httpx`."""
        if name not in ("AsyncClient", "Client"):
            raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
        from authz_client import client  # noqa: PLC0415

        globals().update(AsyncClient=client.AsyncClient, Client=client.Client)
        return globals()[name]


__all__ = [
    "Access",
    "Approval",
    "ApprovalState",
    "ApprovalStatus",
    "ArgumentError",
    "Asked",
    "AsyncClient",
    "CapabilityRefusal",
    "ClaimedPath",
    "Client",
    "Decision",
    "DecisionUnavailable",
    "Effect",
    "Lease",
    "MalformedAnswer",
    "MatchedRule",
    "Obligation",
    "Operation",
    "OperationState",
    "Outcome",
    "RequestNotEncodable",
    "RequestRefused",
    "ServerFailure",
    "Standing",
    "Timeout",
    "Unreachable",
]
