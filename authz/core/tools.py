"""From a reviewed descriptor and arguments to accesses, with derived authority (spec section 3).

Authority is derived per access from the descriptor and from where the resource lies. A person can
raise it, never lower it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from authz.core.canonical import canonicalize, opaque, opaque_text
from authz.core.claims import BelievedClaims
from authz.core.effects import EFFECT_KINDS, POSSIBLE, Effect, effects_of
from authz.core.lines import Lines
from authz.core.option_values import option_values
from authz.core.pointer import Tokens, find, find_or_none, format_pointer, replace_leaf
from authz.core.provenance import RoleTable
from authz.core.strict_json import type_names
from authz.model.call import Call
from authz.model.decision import Access, ArgumentError, Code, Next, Refusal, Stage
from authz.model.resource import Authority, Base, NotCanonical, Resource, Scope, Verb
from authz.model.tool import AccessSpec, Descriptor

_NO_LINES: Final[Lines] = {}
MAX_ACCESSES: Final = 256
"""Of one call: each is an evaluation, and one call must not keep all others waiting."""
MAX_ANCESTORS: Final = 4096
"""Of all resources of one call together: what a deep path costs is the folders that it lies in."""
READING: Final = frozenset({Verb.READ, Verb.CONNECT})
ALWAYS_A3: Final = frozenset({Verb.TRANSACT, Verb.ADMINISTER})
RESOURCE_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "path": frozenset({"File"}),
    "url": frozenset({"Endpoint"}),
    "host": frozenset({"Host"}),
    "email": frozenset({"Mailbox"}),
    "id": frozenset({"Object"}),
    "repo": frozenset({"Repo", "Branch"}),
}
"""Cedar types of the resources of each kind. Every kind may also come out `Opaque`."""


def derive_authority(
    descriptor: Descriptor, spec: AccessSpec, *, in_sandbox: bool, disbelieved: bool
) -> Authority:
    """The authority of one access (spec section 1).

    `in_sandbox`: the resource lies in a sandbox that the caller may declare. `disbelieved`: the
    caller made a claim about itself that it may not make, which puts changes at A3.
    """
    return authority_because(descriptor, spec, in_sandbox=in_sandbox, disbelieved=disbelieved)[0]


def authority_because(
    descriptor: Descriptor, spec: AccessSpec, *, in_sandbox: bool, disbelieved: bool
) -> tuple[Authority, str]:
    """`derive_authority`, and which fact of the descriptor or of the call it came from."""
    if spec.verb in ALWAYS_A3:
        derived, why = Authority.A3, f"`{spec.verb}` is always A3"
    elif spec.verb in READING:
        derived, why = Authority.A0, f"`{spec.verb}` changes nothing"
    elif disbelieved:
        derived, why = Authority.A3, "the caller claims something that its credential may not claim"
    elif in_sandbox and not descriptor.leaves_sandbox:
        derived, why = Authority.A1, "it lies in the believed sandbox, and effects of the tool stay there"
    elif descriptor.is_undoable:
        derived, why = Authority.A2, "a reviewer found a way back: an undo or a compensator"
    elif in_sandbox:
        derived, why = Authority.A3, "effects of the tool can leave the sandbox, and there is no way back"
    else:
        derived, why = Authority.A3, "it lies in no believed sandbox, and there is no reviewed way back"
    if spec.raised_authority > derived:
        return spec.raised_authority, f"raised by a reviewer from {derived.name}"
    return derived, why


def possible_accesses(
    descriptor: Descriptor, spec: AccessSpec
) -> Iterator[tuple[Verb, frozenset[str], frozenset[Authority]]]:
    """(verb, types of resources, levels) of everything that this access can come to: what actions are for."""
    own = possible_levels(descriptor, spec)
    yield spec.verb, RESOURCE_TYPES.get(spec.kind, frozenset({"Opaque"})), own
    for verb, (types, levels) in POSSIBLE.get(spec.kind, {}).items():
        yield verb, types, frozenset(max(level, spec.raised_authority) for level in levels)


def possible_levels(descriptor: Descriptor, spec: AccessSpec) -> frozenset[Authority]:
    """Every authority that `derive_authority` can give this access itself."""
    # Only a path can be seen to lie in a sandbox.
    sandbox = (False, True) if spec.kind == "path" else (False,)
    return frozenset(
        derive_authority(descriptor, spec, in_sandbox=in_sandbox, disbelieved=disbelieved)
        for in_sandbox in sandbox
        for disbelieved in (False, True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalCall:
    """Stage 4's result: canonical arguments, and every access that the call would exercise."""

    arguments: Mapping[str, Any]
    accesses: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """One resource value that an access spec names."""

    spec: AccessSpec
    tokens: Tokens | None
    value: Any
    ref: tuple[Tokens, Any] | None = None
    """Of kind `repo`: the branch, from an argument of its own."""


def canonicalize_call(
    call: Call,
    descriptor: Descriptor,
    roles: RoleTable,
    arguments: Mapping[str, Any],
    believed: BelievedClaims,
    lines: Lines = _NO_LINES,
) -> CanonicalCall | Refusal:
    """Stage 4: canonicalize arguments and accesses. What is not understood is `Opaque`, never dropped."""
    accesses: list[Access] = []
    errors: list[ArgumentError] = []
    canonical = arguments
    judged = above = 0
    for found in _resource_values(descriptor, arguments):
        if found.spec.kind in EFFECT_KINDS:
            named = _effects(descriptor, roles, found, believed, lines)
            if isinstance(named, NotCanonical):
                errors.append(_argument_error(found, named))
                continue
            accesses += named
            above += sum(len(access.resource.chain) for access in named)
            judged = len(accesses)
            if judged > MAX_ACCESSES or above > MAX_ANCESTORS:
                return _too_many()
            continue
        resources = _canonical(found, believed)
        if isinstance(resources, NotCanonical):
            errors.append(_argument_error(found, resources))
            continue
        understood = all(resource.kind != "opaque" for resource in resources)
        if isinstance(found.value, str) and understood:
            canonical = _spell(canonical, found, resources)
        for resource in resources:
            accesses += _accesses(call, descriptor, roles, found, resource, arguments, believed)
        above += sum(len(access.resource.chain) for access in accesses[judged:])
        judged = len(accesses)
        if judged > MAX_ACCESSES or above > MAX_ANCESTORS or len(errors) > MAX_ACCESSES:
            return _too_many()
    errors += islice(option_values(descriptor, roles, canonical), MAX_ACCESSES)
    if errors:
        return Refusal(
            stage=Stage.CANONICAL,
            code=Code.CANONICAL_REFUSED,
            message="; ".join(error.message for error in errors),
            next=(Next.CHANGE_ARGUMENTS, Next.STOP),
            errors=tuple(errors),
        )
    if not accesses:
        # A call that names no object at all could do anything.
        spec = descriptor.accesses[0]
        resource = opaque(spec.kind, descriptor.qualified_name, "the call names no resource")
        found = _Found(spec, None, None)
        accesses += _accesses(call, descriptor, roles, found, resource, arguments, believed)
    return CanonicalCall(arguments=canonical, accesses=tuple(_unique(accesses)))


def _too_many() -> Refusal:
    return Refusal(
        stage=Stage.CANONICAL,
        code=Code.CANONICAL_TOO_MANY,
        message="the call touches too many resources, or too deep ones; split it into several calls",
        next=(Next.CHANGE_ARGUMENTS, Next.STOP),
    )


def _resource_values(descriptor: Descriptor, arguments: Mapping[str, Any]) -> Iterator[_Found]:
    for spec in descriptor.accesses:
        if spec.at is None:
            yield _Found(spec, None, spec.fixed)
            continue
        for tokens, value in _items(arguments, spec.at):
            if value is not None:
                yield _Found(spec, tokens, value, _ref(spec, arguments))
            elif spec.when_absent is not None:
                # Each place that lacks its value stands for the resource, whatever the others have.
                yield _Found(spec, None, spec.when_absent)


def _items(arguments: Mapping[str, Any], pattern: Tokens) -> Iterator[tuple[Tokens, Any]]:
    """The values that `pattern` names, `None` where one is absent; an array stands for each of its items."""
    for tokens, value in find_or_none(arguments, pattern):
        if isinstance(value, list) and value:
            for index, item in enumerate(value):
                yield (*tokens, str(index)), item
        else:
            yield tokens, value if value != [] else None


def _ref(spec: AccessSpec, arguments: Mapping[str, Any]) -> tuple[Tokens, Any] | None:
    """The branch that another argument names. The loader lets no pattern through, so it is one."""
    if spec.ref_at is None:
        return None
    return next(
        ((tokens, value) for tokens, value in find(arguments, spec.ref_at) if value is not None), None
    )


def _spell(arguments: Mapping[str, Any], found: _Found, resources: Sequence[Resource]) -> Mapping[str, Any]:
    """`arguments` with the canonical form in place of what the model wrote.

    A list in one string (recipients) stays one string, of canonical members. A remote whose branch has an
    argument of its own is the remote alone, and the branch stands where it stood.
    """
    if found.tokens is None:
        return arguments
    spelled = ", ".join(resource.value for resource in resources)
    if found.ref is not None:
        spelled, _, ref = spelled.partition("#")
        arguments = replace_leaf(arguments, found.ref[0], ref)
    changed: Mapping[str, Any] = replace_leaf(arguments, found.tokens, spelled)
    return changed


def _effects(
    descriptor: Descriptor, roles: RoleTable, found: _Found, believed: BelievedClaims, lines: Lines
) -> list[Access] | NotCanonical:
    """The accesses that the value itself names, with an authority for each."""
    spec = found.spec
    effects = effects_of(spec, found.value, believed, lines)
    if isinstance(effects, NotCanonical):
        if effects.understood:
            return effects
        whole = opaque(spec.kind, opaque_text(found.value), effects.code)
        effects = (Effect(verb=Verb.EXECUTE, resource=whole, changes=True),)
    accesses = []
    for effect in effects:
        authority, because = effect_authority(descriptor, spec, effect, believed)
        accesses.append(
            Access(
                verb=effect.verb,
                resource=effect.resource,
                scope=effect.scope,
                pattern=effect.pattern,
                authority=authority,
                authority_because=because,
                argument=format_pointer(found.tokens) if found.tokens is not None else "",
                role=roles.role_of(found.tokens) if found.tokens is not None else "",
            )
        )
    return accesses


def effect_authority(
    descriptor: Descriptor, spec: AccessSpec, effect: Effect, believed: BelievedClaims
) -> tuple[Authority, str]:
    """The authority of one effect of a value, and why (spec section 1).

    The effects of a shell line lie apart, so each file that it writes is judged by where it lies, and a
    program by whether it does anything besides.
    """
    in_sandbox = _in_sandbox(effect.resource, believed.sandbox_root)
    if effect.verb in ALWAYS_A3:
        derived, why = Authority.A3, f"`{effect.verb}` is always A3"
    elif effect.verb in READING:
        derived, why = Authority.A0, f"`{effect.verb}` changes nothing"
    elif believed.disbelieved:
        derived, why = Authority.A3, "the caller claims something that its credential may not claim"
    elif effect.verb is Verb.EXECUTE and effect.resource.kind == "program" and not effect.changes:
        derived, why = Authority.A0, "all that the program does is among the other accesses"
    elif effect.verb is Verb.EXECUTE and effect.resource.kind != "opaque" and believed.confined:
        derived, why = Authority.A1, "the runtime holds what runs in the believed sandbox"
    elif effect.verb is not Verb.EXECUTE and in_sandbox:
        derived, why = Authority.A1, "it lies in the believed sandbox"
    elif spec.kind == "sql" and descriptor.is_undoable:
        derived, why = Authority.A2, "a reviewer found a way back: an undo or a compensator"
    else:
        derived, why = Authority.A3, "it lies in no believed sandbox, and there is no reviewed way back"
    if spec.raised_authority > derived:
        return spec.raised_authority, f"raised by a reviewer from {derived.name}"
    return derived, why


def _canonical(found: _Found, believed: BelievedClaims) -> tuple[Resource, ...] | NotCanonical:
    spec, value = found.spec, found.value
    if isinstance(value, (dict, list)):
        return NotCanonical(code=f"{spec.kind}.type", message="expected a string that names a resource")
    if found.ref is not None and isinstance(value, str):
        ref = found.ref[1]
        if "#" in value or not isinstance(ref, str):
            return NotCanonical(code="repo.two_refs", message="name the branch once, in its own argument")
        value = f"{value}#{ref}"
    resources = canonicalize(spec.kind, value, believed.base, object_type=spec.object_type)
    if isinstance(resources, NotCanonical) and not resources.understood:
        return (opaque(spec.kind, opaque_text(value), resources.code),)
    return resources


def _accesses(
    call: Call,
    descriptor: Descriptor,
    roles: RoleTable,
    found: _Found,
    resource: Resource,
    arguments: Mapping[str, Any],
    believed: BelievedClaims,
) -> Iterator[Access]:
    """The access to `resource`, and to where the executor says that it really lies: both are judged."""
    spec = found.spec
    pointer = format_pointer(found.tokens) if found.tokens is not None else ""
    # Also where the path itself was not understood: where it really lies may be forbidden outright.
    claim = call.claims.resolved.get(pointer) if found.tokens is not None and spec.kind == "path" else None
    forms: list[tuple[Resource, tuple[int, int] | None]] = [(resource, None)]
    if claim is not None:
        # Where something really lies is absolute: with nothing to be relative to, the rest is opaque.
        real = canonicalize("path", claim.path, Base(volume=believed.base.volume))
        if isinstance(real, NotCanonical):
            real = (opaque("path", claim.path, real.code),)
        same_file = (
            (claim.device, claim.inode) if claim.device is not None and claim.inode is not None else None
        )
        forms = [(resource, same_file)]
        if real[0].uri != resource.uri:
            forms.append((real[0], same_file))
    # Changes stay in the sandbox only when every form of the path lies there.
    in_sandbox = all(_in_sandbox(form, believed.sandbox_root) for form, _ in forms)
    disbelieved = bool(believed.disbelieved)
    authority, because = authority_because(descriptor, spec, in_sandbox=in_sandbox, disbelieved=disbelieved)
    for form, identity in forms:
        yield Access(
            verb=spec.verb,
            resource=form,
            scope=_scope(spec, arguments),
            authority=authority,
            authority_because=because,
            argument=pointer,
            role=roles.role_of(found.tokens) if found.tokens is not None else "",
            resolved=claim is not None and believed.resolved,
            identity=identity,
        )


def _in_sandbox(resource: Resource, sandbox_root: str | None) -> bool:
    return sandbox_root is not None and any(
        entity.type == "Directory" and entity.id == sandbox_root for entity in resource.chain
    )


def _scope(spec: AccessSpec, arguments: Mapping[str, Any]) -> Scope:
    if spec.tree_if is not None and any(
        value is not False and value is not None for _, value in find(arguments, spec.tree_if)
    ):
        return Scope.TREE
    return spec.scope


def _argument_error(found: _Found, refused: NotCanonical) -> ArgumentError:
    pointer = format_pointer(found.tokens) if found.tokens is not None else ""
    return ArgumentError(
        pointer=pointer,
        found=type_names.get(type(found.value), "value"),
        expected=f"a canonical {found.spec.kind}",
        message=f"change `{pointer}`: {refused.message}",
    )


def _unique(accesses: list[Access]) -> Iterator[Access]:
    """Accesses without exact repeats (the same resource named twice for the same verb and scope)."""
    seen = set()
    for access in accesses:
        key = (
            (access.verb, access.resource.uri, access.scope, access.pattern),
            (access.argument, access.authority),
        )
        if key not in seen:
            seen.add(key)
            yield access
