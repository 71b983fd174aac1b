"""All 69 tools come in from real MCP servers, and as drafts they allow nothing, whatever the arguments."""

import sys
from pathlib import Path
from typing import Any

import pytest

from authz.bundle.load import load_bundle
from authz.bundle.self_protection import Protected
from authz.cli import tools_import
from authz.core.ruleset import Ruleset
from authz.model.call import CallIds, ProvenanceClaim
from authz.model.decision import Effect
from authz.model.resource import Authority
from tests.agentdojo.catalogue import SUITES, advertised_digests
from tests.agentdojo.ground_truth import TrueCall
from tests.agentdojo.replay import SAMPLE_RULE, bundle_of
from tests.support.command import run_command
from tests.support.world import call, decide_in

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample bundle with the drafts of all suites instead of reviewed descriptors."""
    folder = bundle_of("sample", tmp_path_factory.mktemp("import"))
    for file in (folder / "tools").glob("agentdojo-*.yaml"):
        file.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        for suite in SUITES:
            code = run_command(
                tools_import,
                *("--server", suite, "--into", str(folder / "tools" / f"{suite}.yaml")),
                *("--profile", "runtime", "--env", "PYTHONPATH"),
                *("--", sys.executable, "-m", "tests.agentdojo.mcp_server", suite),
            )
            assert code == 0, suite
    return folder


@pytest.fixture(scope="module")
def ruleset(bundle: Path) -> Ruleset:
    """That bundle, loaded."""
    return load_bundle(bundle, Protected())


def test_every_tool_is_drafted_and_pinned(ruleset: Ruleset) -> None:
    drafted = {key: tool.descriptor for key, tool in ruleset.tools.items() if key[0] in SUITES}
    assert len({name for _, name in drafted}) == 69
    for suite in SUITES:
        pinned = {
            name: descriptor.advertised_digest
            for (server, name), descriptor in drafted.items()
            if server == suite
        }
        assert pinned == advertised_digests(suite)
    for descriptor in drafted.values():
        assert not descriptor.reviewed
        assert {spec.raised_authority for spec in descriptor.accesses} == {Authority.A3}


@pytest.mark.parametrize("rule", ["", SAMPLE_RULE.read_text(encoding="utf-8")], ids=["sample", "with reads"])
def test_no_true_call_of_a_draft_is_allowed(bundle: Path, calls: list[TrueCall], rule: str) -> None:
    extra = bundle / "rules" / "extra.cedar"
    if rule:
        extra.write_text(rule, encoding="utf-8")
    try:
        ruleset = load_bundle(bundle, Protected())
    finally:
        extra.unlink(missing_ok=True)
    asked = 0
    for true in calls:
        outcome = decide_in(
            ruleset,
            call(
                f"{true.suite}/{true.tool}",
                true.arguments,
                digest=advertised_digests_of(true.suite)[true.tool],
                provenance={pointer: claim(said) for pointer, said in true.provenance.items()},
                ids=CallIds(trace=true.trace, turn=str(true.index), call=true.id),
                session=true.trace,
            ),
        )
        assert outcome.decision.effect is not Effect.ALLOW, (true, outcome.decision)
        asked += outcome.decision.effect is Effect.REQUIRE_APPROVAL
    # They are not simply broken: nearly all of them wait for a person.
    assert asked > 0.9 * len(calls)


_DIGESTS: dict[str, dict[str, str]] = {}


def advertised_digests_of(suite: str) -> dict[str, str]:
    """The digests of a suite, made once."""
    return _DIGESTS.setdefault(suite, advertised_digests(suite))


def claim(said: dict[str, Any]) -> ProvenanceClaim:
    """Everything as the user's own word: the most that a caller could say."""
    del said
    return ProvenanceClaim(source="user")
