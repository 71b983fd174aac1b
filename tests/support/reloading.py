"""A service in this process whose bundles are real folders, which the test changes under it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from authz.app import load_rulesets, protected_places
from authz.bundle.watch import FolderWatch, scan
from authz.config import Config
from authz.service.bundles import Attempt, BundlesInForce, Trigger, TriggerKind
from authz.service.reloads import Reloads
from tests.support.bundles import write_bundle
from tests.support.service import Service

FORBID = '@id("closed") @reason("Closed.") forbid (principal, action, resource);'


@dataclass
class SettableMonotonic:
    """A clock in seconds that stands until it is moved, or that the real one drives."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Reloading:
    """A service, the folder of its default tenant, and what reloads it."""

    service: Service
    folder: Path
    bundles: BundlesInForce
    reloads: Reloads
    monotonic: SettableMonotonic

    @property
    def version(self) -> str:
        """The version in force for the default tenant."""
        return self.bundles.status("default").ruleset.version

    async def reload(self, tenant: str = "default", kind: TriggerKind = TriggerKind.SIGNAL) -> Attempt:
        """Reload and wait for the outcome."""
        return await self.reloads.reload(tenant, Trigger(kind=kind))

    def write(self, text: str, name: str = "rules/main.cedar") -> None:
        """Write one file of the bundle."""
        (self.folder / name).write_text(text)

    def watch(self) -> FolderWatch:
        """A watch of the folder as it is now, with scans that are close together."""
        return FolderWatch(
            tenant="default",
            folder=self.folder,
            bundles=self.bundles,
            reloads=self.reloads,
            loaded=scan(self.folder),
            scan_seconds=0.05,
        )


@asynccontextmanager
async def reloading(
    tmp_path: Path, *, tenants: Mapping[str, Path] | None = None, max_staleness_seconds: float | None = None
) -> AsyncIterator[Reloading]:
    """A service over a new bundle in `tmp_path/bundle`, and over those of further `tenants`."""
    folder = write_bundle(tmp_path / "bundle")
    data_dir = tmp_path / "var"
    data_dir.mkdir()
    config = Config(policies=folder, tenants=dict(tenants or {}), data_dir=data_dir)
    monotonic = SettableMonotonic()
    bundles = BundlesInForce(
        load_rulesets(config, protected_places(config)),
        max_staleness_seconds=max_staleness_seconds,
        monotonic=monotonic,
    )
    async with Service.running(data_dir, bundles, config=config) as service:
        yield Reloading(
            service=service,
            folder=folder,
            bundles=bundles,
            reloads=service.application.services.reloads,
            monotonic=monotonic,
        )
