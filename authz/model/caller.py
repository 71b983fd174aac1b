"""What the bundle lets a credential say (spec section 1, "claim")."""

from dataclasses import dataclass, field

from authz.model.resource import Volume


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One entry of the bundle's `credentials.yaml`: what callers of this profile may assert.

    Empty means nothing: a profile that lists no agents may speak for none.
    """

    name: str
    agents: frozenset[str] = frozenset()
    """Agent ids that may be asserted; `*` stands for any."""
    users: frozenset[str] = frozenset()
    """Users on whose behalf; `*` for any. Acting for no user is always possible."""
    sandboxes: tuple[str, ...] = ()
    """Canonical directories in which a declared `sandbox_root` and `cwd` are believed."""
    sources: frozenset[str] = frozenset()
    """Provenance sources that are believed when declared. Others count as untrusted."""
    resolves: bool = False
    """Whether `resolved` claims are believed, so that policies see them as confirmed."""
    confines: bool = False
    """Whether no program that the runtime starts can leave the declared sandbox, by files or by the network:
    then code that nobody has read may run there, and whatever it does can be discarded."""
    volume_case_sensitive: bool = True
    volume_normalization: str = "none"
    home: str | None = None

    @property
    def volume(self) -> Volume:
        """How the file system at this profile's executors spells names."""
        return Volume(case_sensitive=self.volume_case_sensitive, normalization=self.volume_normalization)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated caller: its tenant, its roles, and what it may assert."""

    key_id: str
    tenant: str
    roles: frozenset[str]
    profile: Profile
    dev: bool = field(default=False)
