"""The profile installs and runs without anything of the service."""

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import authz_client

PACKAGE = Path(authz_client.__file__).parents[1]
PYPROJECT = Path(__file__).parents[4] / "clients" / "python" / "pyproject.toml"
PROGRAM = """
import sys

ALLOWED = set({allowed!r}) | sys.stdlib_module_names
seen = set()

class Only:
    # Whatever is not declared by the client, or brought by what it declares, is not there.
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ALLOWED:
            raise ModuleNotFoundError(f"{{top}} is not installed here")
        seen.add(top)
        return None

sys.meta_path.insert(0, Only())
sys.path.insert(0, {package!r})
{body}
print(*sorted(seen - sys.stdlib_module_names))
"""
BODY = """
from authz_client import capabilities as c

issuer, agent, child = c.generate_key(), c.generate_key(), c.generate_key()
entry = {"type": "agent_tool_call", "actions": ["read"], "locations": ["file:///srv"]}
root = c.issue_root(
    issuer, issuer="https://i.example", audience="https://p.example", subject="ada", holder=agent.public,
    entries=[entry], jti="j", iat=100, exp=200, max_depth=2,
)
chain = c.narrow((root,), agent, holder=child.public, jti="k", iat=100)
found = c.verify_chain(
    chain, now=150, audience="https://p.example", issuer="https://i.example",
    keys={issuer.kid: issuer.public}, revoked=c.NOTHING_REVOKED,
)
assert isinstance(found, c.VerifiedChain), found
digest = c.request_digest({"a": 1})
proof = c.prove(chain[-1], child, audience="https://p.example", request_digest=digest, jti="p", iat=150)
assert isinstance(
    c.verify_proof(proof, chain=found, audience="https://p.example", request_digest=digest, now=150),
    c.VerifiedProof,
)
assert c.parse_entries([{**entry, "locations": ["domain:xn--bcher-kva.example"]}])
"""
OWN = {"authz_client"}
BROUGHT = {
    # by cryptography
    *("cffi", "_cffi_backend"),
    # by httpx and httpcore, which `authz_client` itself imports
    *("anyio", "certifi", "h11", "sniffio", "typing_extensions", "h2", "socksio", "trio"),
}


def declared() -> set[str]:
    """The modules of what pyproject.toml declares."""
    names = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    wanted = {name.partition(">=")[0].lower().replace("_", "-") for name in names}
    return {
        module
        for module, owners in packages_distributions().items()
        if wanted & {owner.lower().replace("_", "-") for owner in owners}
    }


def imported(body: str, allowed: set[str]) -> set[str]:
    program = PROGRAM.format(allowed=sorted(allowed), package=str(PACKAGE), body=body)
    # -I: no environment, no user's packages, no current folder.
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_it_runs_with_what_it_declares_and_nothing_else() -> None:
    used = imported(BODY, OWN | declared() | BROUGHT)
    assert used >= {"authz_client", "cryptography", "jwt", "rfc8785", "idna"}
    assert not used & {"authz", "fastapi", "pydantic", "cedarpy", "sqlmodel", "sqlalchemy", "orjson"}


def test_the_hook_refuses_what_is_not_declared() -> None:
    """Or the test above would say nothing."""
    body = (
        "for name in ('authz', 'fastapi', 'pydantic', 'cedarpy', 'sqlmodel', 'orjson'):\n"
        "    try:\n        __import__(name)\n"
        "    except ModuleNotFoundError:\n        continue\n"
        "    raise SystemExit(name)\n"
    )
    assert imported(body, OWN | declared() | BROUGHT) == set()


def test_every_dependency_is_needed() -> None:
    """Each is imported somewhere, so none is left behind and none is missing."""
    source = "\n".join(path.read_text() for path in (PACKAGE / "authz_client").rglob("*.py"))
    missing = {
        module
        for module in declared() - {"_rust"}
        if not module.startswith("_") and f"import {module}" not in source and f"from {module}" not in source
    }
    assert missing == set()
