"""Request fields that are known and not honoured: refused by name unless they ask for nothing.

The README's table of fields lists the same names; a test compares the two.
"""

from __future__ import annotations

from typing import Any

_FROM_TEXT = "pictures are drawn from text alone"

UNSERVED: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("style", "the prompt says how a picture looks", ()),
    ("quality", "'steps' chooses between speed and quality", ("auto",)),
    ("background", "pictures are opaque", ("auto", "opaque")),
    ("output_format", "pictures are PNG", ("png",)),
    ("output_compression", "pictures are PNG", (100,)),
    ("moderation", "nothing is moderated", ("auto", "low")),
    ("input_fidelity", _FROM_TEXT, ()),
    ("image", _FROM_TEXT, ()),
    ("mask", _FROM_TEXT, ()),
)
"""Name, reason, and the values that ask for nothing (null and absence never do)."""
