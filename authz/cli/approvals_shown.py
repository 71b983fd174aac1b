"""What an approver is shown, fetched and rendered here: the digest is that of what was printed."""

import json
import shutil
from dataclasses import dataclass
from typing import Any, Final, cast

from authz.cli.approvals_service import Service, approval_path
from authz.cli.approvals_view import told
from authz.core.fingerprint import canonical_json
from authz.core.rendering_text import MIN_WIDTH, render_text
from authz.core.shown import read_shown, shown_digest
from authz.core.shown_types import ShownDocument
from authz.core.visible_scripts import Reading
from authz.errors import StoreUnavailable

MAX_WIDTH: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHere:
    """The shown document as this command has it."""

    document: ShownDocument
    digest: str
    """Computed here, of the document that is printed."""
    answer: dict[str, Any]
    """What else the service said of it."""

    @property
    def factor(self) -> str:
        """What every yes to it has to be given with."""
        return self.document["terms"]["factor"]


def fetch_shown(service: Service, approval_id: str) -> ShownHere:
    """The shown document. Raises `StoreUnavailable` where it is not the one that the service means."""
    answer = service.ask("GET", f"{approval_path(approval_id)}/shown")
    try:
        content = canonical_json(answer["document"])
        document = read_shown(content, expected_digest=answer["shown_digest"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreUnavailable(
            f"what `{service.url}` shows of the approval is not what it would be approved as: "
            f"{error if isinstance(error, ValueError) else type(error).__name__}"
        ) from None
    return ShownHere(document=document, digest=shown_digest(content), answer=answer)


def text_of(shown: ShownHere, *, secrets: bool = False) -> str:
    """All of it, for this terminal. Nothing is folded."""
    columns = shutil.get_terminal_size((100, 24)).columns
    width = min(max(columns, MIN_WIDTH), MAX_WIDTH)
    told_lines = [
        render_text(shown.document, width=width, secrets=secrets),
        f"DIGEST {shown.digest}",
    ]
    told_lines += [f"CHANGED SINCE IT WAS ASKED: {told(one, Reading.TEXT)}" for one in shown.answer["drift"]]
    return "\n".join(told_lines) + "\n"


def json_of(shown: ShownHere) -> dict[str, Any]:
    """The same for `--json`."""
    return {**shown.answer, "document": json.loads(canonical_json(cast("Any", shown.document)))}
