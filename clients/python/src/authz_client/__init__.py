"""Asks the authz service whether a call of an agent may run. Holds no policy of its own.

    with Client("http://localhost:8700", api_key=key) as client:
        decision = client.decide(request)

No answer is an allow but `Decision.allowed`; every failure to get one is a `DecisionUnavailable`.
"""

from authz_client.client import AsyncClient, Client
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
    Asked,
    CapabilityRefusal,
    ClaimedPath,
    Decision,
    Effect,
    Lease,
    MatchedRule,
    Obligation,
)

__all__ = [
    "Access",
    "Approval",
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
    "RequestNotEncodable",
    "RequestRefused",
    "ServerFailure",
    "Timeout",
    "Unreachable",
]
