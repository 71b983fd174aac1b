"""CF1, PE2, PE3: whatever becomes of the files, the last good bundle decides, and no other."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.bundle.load import read_sources
from authz.service.bundles import BundleState, ReloadOutcome
from tests.support.bundles import write_bundle
from tests.support.reloading import FORBID, reloading
from tests.support.world import MANIFEST, PERMIT_ALL

GOOD = {"allow": {"rules": PERMIT_ALL}, "deny": {"rules": FORBID}}
BAD = {
    "half": {"rules": PERMIT_ALL[:-20]},
    "no rules": {"rules": {}},
    "twice": {"rules": {"main": PERMIT_ALL, "more": PERMIT_ALL}},
    "unknown key": {"manifest": MANIFEST + "nmae: x\n"},
    "no folder": None,
}


@settings(max_examples=3)
@given(states=st.lists(st.sampled_from([*GOOD, *BAD]), min_size=2, max_size=5))
async def test_the_last_good_bundle_decides(states: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        async with reloading(Path(name)) as running:
            service, last, version = running.service, "allow", running.version
            for state in states:
                shutil.rmtree(running.folder, ignore_errors=True)
                parts = GOOD.get(state, BAD.get(state))
                if parts is not None:
                    write_bundle(running.folder, **parts)
                attempt = await running.reload()
                if state in GOOD:
                    last, version = state, read_sources(running.folder).version
                    assert attempt.outcome in (ReloadOutcome.LOADED, ReloadOutcome.UNCHANGED)
                else:
                    assert attempt.outcome is ReloadOutcome.REJECTED
                    assert attempt.problems
                expected = BundleState.READY if state in GOOD else BundleState.DEGRADED
                assert running.bundles.state("default") is expected
                answer = await service.decide(service.body("fs/file_read", {"path": "/workspace/a"}))
                assert (answer["effect"], answer["policy_version"]) == (last, version)
