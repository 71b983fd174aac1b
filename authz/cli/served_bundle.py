"""A bundle as the service would have it, its own rule about what decides included."""

from pathlib import Path

from authz.app import protected_places
from authz.bundle.load import BundleSources, compile_bundle
from authz.config import load_config
from authz.core.ruleset import Ruleset


def compile_as_served(sources: BundleSources, folder: Path) -> Ruleset:
    """The ruleset that a service here would decide by, were `folder` its bundle.

    So that all commands that decide calls give the verdict of the service, one function makes what they
    decide by. Raises `BundleError`, and `ConfigError` for an invalid configuration.
    """
    return compile_bundle(sources, protected_places(load_config(policies=folder)))
