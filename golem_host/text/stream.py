"""From token pieces to text that may leave: whole characters only, and nothing that may be part of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """The text of one answer as it grows.

    Bytes that are no UTF-8 become U+FFFD, exactly as `bytes.decode("utf-8", "replace")` of the whole would have it.
    The answer ends at the stop string that is complete first; of two complete at the same character, at the longer
    one. Text before it is released, it and what follows never are. So the released text does not depend on how the
    bytes were cut into pieces. Empty stop strings are skipped.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._longest = max((len(stop) for stop in self._stops), default=0)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stopped: str | None = None

    @property
    def incomplete(self) -> bool:
        """The bytes so far end within a character."""
        return bool(self._decoder.getstate()[0])

    def push(self, piece: bytes) -> str:
        """Take in the bytes of the next token; returns the text that may leave now, often empty."""
        return self._release(self._decoder.decode(piece))

    def finish(self) -> str:
        """The answer is over: returns what was held back. An unfinished character becomes one U+FFFD."""
        text = self._release(self._decoder.decode(b"", final=True)) + self._held
        self._held = ""
        return text

    def _release(self, new: str) -> str:
        if not self._stops:
            return new
        if self.stopped is not None:
            return ""
        text = self._held + new
        found = [(start + len(stop), start, stop) for stop in self._stops if (start := text.find(stop)) >= 0]
        if found:
            _, start, self.stopped = min(found)
            self._held = ""
            return text[:start]
        keep = self._possible_stop(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def _possible_stop(self, text: str) -> int:
        """Length of the longest end of the text that begins a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
