"""Capabilities: signed, attenuable, delegated. The one Python implementation of the token profile.

    root = issue_root(issuer_key, holder=agent.public, entries=[…], …)
    chain = narrow((root,), agent, holder=child.public, entries=[…], jti=new_jti(), iat=now_seconds())
    proof = prove(chain[-1], child, audience=…, request_digest=request_digest(body), …)

    found = verify_chain(chain, now=…, audience=…, issuer=…, keys=…, revoked=…)   # VerifiedChain | Refusal

Verification is pure: time, keys and revocations are arguments, and a refusal is a value with a stable code
(`Reason`). C_c ⪯ C_p iff R, O, P and E are each no wider (`entries`, `rights`, `objects`, `constraints`,
`budgets`); a child that is wider is refused, naming the component.
"""

from authz_client.capabilities.budgets import Budget, parse_budget
from authz_client.capabilities.calls import CallAccess, ToolCall, allows, check_access, check_call
from authz_client.capabilities.chain import recheck, verify_chain, verify_structure
from authz_client.capabilities.claims import Ancestor
from authz_client.capabilities.digests import arguments_digest, request_digest
from authz_client.capabilities.entries import Entry, Widening, implies, parse_entries, widening
from authz_client.capabilities.issuing import issue_root, narrow
from authz_client.capabilities.key_files import read_key, write_key
from authz_client.capabilities.keys import (
    BadKey,
    PublicKey,
    Signer,
    SigningKey,
    generate_key,
    public_key,
    published_keys,
    signing_key,
    signing_key_from_jwk,
    signing_key_from_pem,
)
from authz_client.capabilities.lines import check_line, explain_line
from authz_client.capabilities.moments import new_jti, now_seconds
from authz_client.capabilities.packet_json import parse_packet
from authz_client.capabilities.packets import Completion, OutputContract, TaskPacket, TaskResource
from authz_client.capabilities.proofs import VerifiedProof, prove, verify_proof
from authz_client.capabilities.reasons import Component, Reason, Refusal, Refused
from authz_client.capabilities.revocations import NOTHING_REVOKED, Revocations, parse_revocations
from authz_client.capabilities.tickets import Ticket, sign_ticket, verify_ticket
from authz_client.capabilities.verified import Debit, VerifiedChain, VerifiedLink, chain_digest

__all__ = [
    "NOTHING_REVOKED",
    "Ancestor",
    "BadKey",
    "Budget",
    "CallAccess",
    "Completion",
    "Component",
    "Debit",
    "Entry",
    "OutputContract",
    "PublicKey",
    "Reason",
    "Refusal",
    "Refused",
    "Revocations",
    "Signer",
    "SigningKey",
    "TaskPacket",
    "TaskResource",
    "Ticket",
    "ToolCall",
    "VerifiedChain",
    "VerifiedLink",
    "VerifiedProof",
    "Widening",
    "allows",
    "arguments_digest",
    "chain_digest",
    "check_access",
    "check_call",
    "check_line",
    "explain_line",
    "generate_key",
    "implies",
    "issue_root",
    "narrow",
    "new_jti",
    "now_seconds",
    "parse_budget",
    "parse_entries",
    "parse_packet",
    "parse_revocations",
    "prove",
    "public_key",
    "published_keys",
    "read_key",
    "recheck",
    "request_digest",
    "sign_ticket",
    "signing_key",
    "signing_key_from_jwk",
    "signing_key_from_pem",
    "verify_chain",
    "verify_proof",
    "verify_structure",
    "verify_ticket",
    "widening",
    "write_key",
]
