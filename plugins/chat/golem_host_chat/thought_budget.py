"""Limits on a thought: when its tokens are spent, or a client wants it to end, it is closed, and the answer follows."""

from __future__ import annotations

import codecs
import sys
from dataclasses import dataclass

from golem_host_chat.formats.cursor import SPACE
from golem_host_chat.formats.thoughts import Thought

UNLIMITED = sys.maxsize


class ThoughtEnd:
    """Whether a client wants the thoughts of its running answer to end; set by one thread, read by another."""

    wanted = False


@dataclass(frozen=True)
class ThoughtBudget:
    """At most `tokens` for the thoughts of an answer, opening markers not counted, and none once their `end` is wanted.

    `closing` are the tokens that end a thought; `openers` are texts that end one too (calls, in some notations).
    `opened`: the prompt ends within a thought.
    """

    thought: Thought
    tokens: int
    closing: tuple[int, ...]
    openers: tuple[str, ...] = ()
    opened: bool = False
    end: ThoughtEnd | None = None


class ThoughtCount:
    """Follows an answer as it is drawn, and says what has to be drawn next.

    Thoughts are where `routes/reading.py` finds them. A thought is closed between characters, never within one.
    """

    def __init__(self, budget: ThoughtBudget) -> None:
        self._thought = budget.thought
        self._closing = budget.closing
        self._ends = (budget.thought.closing, *budget.openers)
        self._left = budget.tokens
        self._end = budget.end
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        """The end of the text that may hold a marker, or all of it while a thought may begin the answer."""
        self._within = budget.opened
        self._may_begin = not budget.opened
        self._forced = 0

    def forced(self) -> int | None:
        """The token that must be drawn now; None: any."""
        if self._forced:
            return self._closing[self._forced] if self._forced < len(self._closing) else None
        over = self._left <= 0 or (self._end is not None and self._end.wanted)
        return self._closing[0] if over and self._within and not self._decoder.getstate()[0] else None

    def accept(self, token: int, piece: bytes) -> None:
        """`token`, whose bytes are `piece` (also those of control tokens), was drawn."""
        if self.forced() == token:
            self._forced += 1
        elif self._within:
            self._left -= 1
        self._text += self._decoder.decode(piece)
        while self._passes_marker():
            pass

    def _passes_marker(self) -> bool:
        """Look for the marker that comes next; forget the text before it."""
        thought = self._thought
        if self._may_begin and not thought.anywhere:
            begun = self._text.lstrip(SPACE)
            if len(begun) < len(thought.opening) and thought.opening.startswith(begun):
                return False
            self._may_begin = False
            self._within = begun.startswith(thought.opening)
            self._text = begun.removeprefix(thought.opening) if self._within else ""
            return self._within
        if not self._within and not thought.anywhere:
            self._text = ""
            return False
        markers = self._ends if self._within else (thought.opening,)
        places = [(place, marker) for marker in markers if (place := self._text.find(marker)) >= 0]
        if not places:
            self._text = self._text[-max(map(len, markers)) :]
            return False
        place, marker = min(places)
        self._within = not self._within
        self._forced = 0
        self._text = self._text[place + len(marker) :]
        return True
