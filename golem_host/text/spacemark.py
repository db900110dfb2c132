"""U+2581, which stands for a space in SentencePiece-style vocabularies, and the words it separates."""

from __future__ import annotations

import re
from collections.abc import Iterable

SPACE_MARK = "\u2581"
SPACE_MARK_BYTES = SPACE_MARK.encode()
_NEVER_TEXT = b"\xff"  # occurs in no UTF-8
_JOINED = re.compile(f"([^{SPACE_MARK} \udcff]) ?{SPACE_MARK}")


def word_boundaries(merged: Iterable[bytes]) -> re.Pattern[str]:
    """A pattern matching the empty places between words, at which a text can be cut without changing what merges do.

    `merged` are all sequences merges can make, whole or as "left right". A place before a space mark is a boundary
    unless some sequence has a mark after the character that precedes it (Gemma has one: `>\u2581</`).
    """
    everything = _NEVER_TEXT.join(merged).decode("utf-8", "surrogateescape")
    joining = "".join(re.escape(character) for character in sorted(set(_JOINED.findall(everything))))
    return re.compile(f"(?<=[^{SPACE_MARK}{joining}])(?={SPACE_MARK})")
