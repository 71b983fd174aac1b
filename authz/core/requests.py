"""What a request must look like (spec section 11): one set of models for the wire and for cases of a bundle.

Validated once, strictly: a member that is not declared is refused, and nothing is converted.
"""

import unicodedata
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from authz.core.canonical.spelling import has_invisible, has_odd_space
from authz.core.fingerprint import request_digest
from authz.core.pointer import format_pointer, parse_pointer
from authz.errors import MalformedInput
from authz.model.call import Call, CallIds, Claims, ProvenanceClaim, Start, Subject
from authz.model.resource import ResolvedPath
from authz.model.tool import Trust


def _one_spelling(name: str) -> str:
    """A name in the one spelling it has, so that no second name looks like one that a rule is written for."""
    if name[0].isspace() or name[-1].isspace():
        raise ValueError("must not begin or end with a blank")
    if name.isascii():
        if not name.isprintable():
            raise ValueError("must not hold control characters")
    elif unicodedata.normalize("NFC", name) != name:
        raise ValueError("must be in Unicode normal form C")
    elif has_invisible(name) or has_odd_space(name) or "Cn" in map(unicodedata.category, name):
        raise ValueError("must not hold invisible characters")
    return name


# Names that reach logs, rules and pages.
Id = Annotated[str, StringConstraints(min_length=1, max_length=256), AfterValidator(_one_spelling)]
PathText = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
PointerText = Annotated[str, StringConstraints(max_length=1024, pattern=r"^(/[^\x00-\x1f]*)?$")]
DigestText = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
MAX_BATCH: Final = 64


class Wire(BaseModel):
    """A member that is not declared is refused, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SubjectIn(Wire):
    """Who acts, and for whom. The credential must be allowed to assert it."""

    agent: Id
    on_behalf_of: Id | None = None
    session: Id | None = None
    parent_agent: Id | None = None


class ToolIn(Wire):
    """Which tool, by the server's alias in the bundle."""

    server: Id
    name: Id
    advertised_digest: DigestText | None = None


class ProvenanceIn(Wire):
    """Where the value of an argument leaf came from."""

    source: Id
    uri: PathText | None = None
    call: Id | None = None
    tool: Annotated[str, StringConstraints(max_length=513, pattern=r"^[^/]+/.+$")] | None = None
    field: PointerText | None = None
    trust: Literal["trusted", "untrusted"] | None = None
    labels: list[Id] = Field(default_factory=list, max_length=64)
    allowed_use: list[Id] = Field(default_factory=list, max_length=64)


class ResolvedIn(Wire):
    """What the executor's file system says that a path argument is."""

    path: PathText
    device: Annotated[int, Field(ge=0)] | None = None
    inode: Annotated[int, Field(ge=0)] | None = None


class VersionsIn(Wire):
    """Versions of what made the call, as given; only recorded."""

    model: Id | None = None
    client: Id | None = None
    prompt: Id | None = None
    project: Id | None = None


class StartIn(Wire):
    """With an allow the act begins at once: reserved and started in one. Of several attempts one begins."""

    attempt: Id
    """The runtime's own name for this attempt: the same one sent again gets the same answer."""
    timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    """How long the act may take. Its lease ends after that."""


class ContextIn(Wire):
    """Where the call stands in its trace, and what the caller says about itself."""

    trace_id: Id | None = None
    turn_id: Id | None = None
    tool_call_id: Id | None = None
    parent_trace_id: Id | None = None
    parent_turn_id: Id | None = None
    cwd: PathText | None = None
    sandbox_root: PathText | None = None
    resolved: dict[PointerText, ResolvedIn] = Field(default_factory=dict, max_length=256)
    ask: bool = False
    settles: bool = False
    start: StartIn | None = None
    occurred_at: Id | None = None
    versions: VersionsIn = VersionsIn()


class DecideRequest(Wire):
    """One proposed tool call."""

    subject: SubjectIn
    tool: ToolIn
    arguments: dict[str, Any]
    provenance: dict[PointerText, ProvenanceIn] = Field(default_factory=dict, max_length=1024)
    context: ContextIn = ContextIn()
    dry_run: bool = False
    capability: Annotated[
        list[Annotated[str, StringConstraints(max_length=16384)]], Field(max_length=9, default_factory=list)
    ]
    proof: Annotated[str, StringConstraints(max_length=16384)] | None = None
    ticket: bool = False


class BatchRequest(Wire):
    """Several calls, decided in order, each with its own answer."""

    calls: Annotated[list[DecideRequest], Field(min_length=1, max_length=MAX_BATCH)]


_decide_request = TypeAdapter(DecideRequest)
_batch_request = TypeAdapter(BatchRequest)


def parse_decide(body: Any) -> Call:
    """The call in a request body. Raises `MalformedInput` naming the first faulty place."""
    try:
        return to_call(_decide_request.validate_python(body), body)
    except ValidationError as error:
        raise malformed(error) from None


def parse_batch(body: Any) -> list[Call]:
    """The calls in a batch body."""
    try:
        batch = _batch_request.validate_python(body)
    except ValidationError as error:
        raise malformed(error) from None
    return [
        to_call(request, raw, f"/calls/{index}")
        for index, (request, raw) in enumerate(zip(batch.calls, body["calls"], strict=True))
    ]


def malformed(error: ValidationError) -> MalformedInput:
    """The first fault of a body, as a problem that names its place and what to do."""
    fault = error.errors(include_url=False, include_input=False)[0]
    pointer = format_pointer(tuple(str(part) for part in fault["loc"] if part != "[key]"))
    words = {
        "missing": "the member is missing",
        "extra_forbidden": "there is no such member",
        "model_type": "expected an object",
    }
    message = words.get(fault["type"], fault["msg"][:1].lower() + fault["msg"][1:])
    return MalformedInput(f"`{pointer or '/'}`: {message}", code="input.invalid", pointer=pointer)


def to_call(request: DecideRequest, raw: dict[str, Any], at: str = "") -> Call:
    """The call that a validated request asks about; `raw` is the body as it was sent."""
    context = request.context
    provenance: dict[tuple[str, ...], ProvenanceClaim] = {}
    for pointer, claim in request.provenance.items():
        provenance[_pointer(pointer, f"{at}/provenance")] = ProvenanceClaim(
            source=claim.source,
            uri=claim.uri,
            call=claim.call,
            tool=claim.tool,
            field=_pointer(claim.field, f"{at}/provenance") if claim.field is not None else None,
            trust=Trust(claim.trust) if claim.trust else None,
            labels=frozenset(claim.labels),
            allowed_use=frozenset(claim.allowed_use),
        )
    for pointer in context.resolved:
        _pointer(pointer, f"{at}/context/resolved")
    try:
        digest = request_digest(raw)
    except ValueError as error:
        raise MalformedInput(f"the body has no canonical form: {error}", code="input.invalid") from None
    subject = request.subject
    return Call(
        subject=Subject(
            agent=subject.agent,
            on_behalf_of=subject.on_behalf_of,
            session=subject.session,
            parent_agent=subject.parent_agent,
        ),
        server=request.tool.server,
        tool=request.tool.name,
        advertised_digest=request.tool.advertised_digest,
        arguments=request.arguments,
        provenance=provenance,
        ids=CallIds(
            trace=context.trace_id,
            turn=context.turn_id,
            call=context.tool_call_id,
            parent_trace=context.parent_trace_id,
            parent_turn=context.parent_turn_id,
        ),
        claims=Claims(
            cwd=context.cwd,
            sandbox_root=context.sandbox_root,
            resolved={
                pointer: ResolvedPath(path=found.path, device=found.device, inode=found.inode)
                for pointer, found in context.resolved.items()
            },
        ),
        ask=context.ask,
        dry_run=request.dry_run,
        capability=tuple(request.capability),
        proof=request.proof,
        ticket=request.ticket,
        settles=context.settles or context.start is not None,
        start=_start(context.start),
        versions={name: value for name, value in context.versions if value is not None},
        occurred_at=context.occurred_at,
        request_digest=digest,
    )


def _start(start: StartIn | None) -> Start | None:
    if start is None:
        return None
    seconds = start.timeout_seconds
    return Start(attempt=start.attempt, timeout_ms=None if seconds is None else seconds * 1000)


def _pointer(text: str, at: str) -> tuple[str, ...]:
    try:
        return parse_pointer(text)
    except ValueError as error:
        raise MalformedInput(str(error), code="input.invalid", pointer=at) from None
