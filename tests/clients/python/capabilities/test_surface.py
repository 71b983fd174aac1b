"""The public surface of authz_client.capabilities, and what it may lean on."""

import subprocess
import sys
import types
from pathlib import Path

from authz_client import capabilities
from authz_client.capabilities.reasons import WIDENED, Component, Reason

EXPECTED = """
    NOTHING_REVOKED Ancestor BadKey Budget CallAccess Completion Component Debit Entry
    OutputContract PublicKey Reason Refusal Refused Revocations Signer SigningKey TaskPacket TaskResource
    Ticket ToolCall VerifiedChain VerifiedLink VerifiedProof Widening allows arguments_digest
    chain_digest check_access check_call check_line explain_line generate_key implies issue_root
    narrow new_jti now_seconds parse_budget parse_entries parse_packet parse_revocations prove public_key
    published_keys read_key recheck request_digest sign_ticket signing_key signing_key_from_jwk
    signing_key_from_pem verify_chain verify_proof verify_structure verify_ticket widening write_key
""".split()


def test_exported_names() -> None:
    assert capabilities.__all__ == EXPECTED


def test_nothing_else_is_public() -> None:
    public = {
        name
        for name, value in vars(capabilities).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(EXPECTED)


def test_codes_are_stable() -> None:
    """A code may be added at the end of a group; none may go or change its spelling."""
    assert len(set(Reason)) == 67
    assert all(code.value == code.name.lower() for code in Reason)
    assert set(WIDENED) == set(Component)


def test_verification_needs_nothing_of_the_service_and_no_clock() -> None:
    program = (
        "import sys, time, random, secrets, os\n"
        "import authz_client.capabilities.chain, authz_client.capabilities.lines\n"
        "import authz_client.capabilities.proofs, authz_client.capabilities.tickets\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert not set(done.stdout.split()) & {"authz", "fastapi", "pydantic", "cedarpy", "sqlalchemy", "orjson"}
    verifying = set(Path(capabilities.__file__).parent.glob("*.py"))
    for module in verifying - {path for path in verifying if path.name in ("moments.py", "key_files.py")}:
        text = module.read_text(encoding="utf-8")
        for banned in ("import time", "import random", "import secrets", "import os", "datetime", "open("):
            assert banned not in text, f"{module.name} has `{banned}`"
