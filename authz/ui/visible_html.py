"""Pieces of a text as HTML: what is made visible is marked, and a right-to-left run stands apart."""

from collections.abc import Iterable
from html import escape
from typing import Final

from authz.core.visible import Piece
from authz.core.visible_characters import Kind

_BREAKS: Final = frozenset({Kind.LINE_END})


def visible_html(parts: Iterable[Piece]) -> str:
    """Elements and escaped text only: no attribute holds a value, so nothing of it can become markup.

    A page styles `.odd` so that no plain text looks like it.
    """
    return "".join(map(_html, parts))


def _html(part: Piece) -> str:
    if part.kind is Kind.PLAIN:
        return escape(part.text)
    if part.kind is Kind.RIGHT_TO_LEFT:
        return f'<bdi dir="rtl" class="rtl">{escape(part.text)}</bdi>'
    marked = f'<span class="odd {part.kind.value}">{escape(part.spelled)}</span>'
    return marked + "<br>" if part.kind in _BREAKS else marked
