"""From the text a model draws to what an answer is made of: reasoning, content and calls.

Every route's answers come through here, whole and streamed alike: a whole answer is a stream of one piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby

from golem_host_chat.formats.base import Call, CallFormat, Malformed, Tools
from golem_host_chat.formats.cursor import SPACE, Cursor
from golem_host_chat.formats.thoughts import Thought
from golem_host_chat.generation import Completion, Delta, DrawnToken, Timings
from golem_host_chat.thought_budget import ThoughtBudget

MAX_BROKEN = 32
"""Beginnings of calls that turn out to be none, each of which is read again as text; further ones stay text at once."""


@dataclass(frozen=True)
class Piece:
    """A part of an answer that may leave now. Calls are whole; of the first three one is not empty at most, but
    reasoning and content where that is `doubled`.

    The others are what the deltas it comes from carried; the last piece may have nothing else.
    """

    content: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    tokens: tuple[DrawnToken, ...] = ()
    ids: tuple[int, ...] = ()
    timings: Timings | None = None
    slot: int | None = None


@dataclass(frozen=True)
class Ending:
    """An answer that is over: all of a kind joined, and what the lane says of it.

    `pieces` has it in the order in which it came, in as few pieces as that takes.
    """

    completion: Completion
    pieces: tuple[Piece, ...]
    content: str
    reasoning: str
    calls: tuple[Call, ...]

    @property
    def finish(self) -> str:
        """`length` (token limit or full context), else `tool_calls` when there are any, else `stop`."""
        return "tool_calls" if self.calls and self.completion.finish == "stop" else self.completion.finish


@dataclass(frozen=True)
class Reading:
    """How the answers to a prompt are read.

    Without `thought` and `calls` all text is content. `tools` are the functions that may be called. `opened` says that
    the prompt ends within a thought, `resumed` that the thought has begun there with text of its own. `preserve` are
    the control tokens whose text has to leave the lane for it (`Generation.preserve`); `budget` limits what it thinks
    there. With `single` an answer ends with its first call; with `doubled` thoughts stand in the content, too,
    between their markers.
    """

    thought: Thought | None = None
    calls: CallFormat | None = None
    tools: Tools = field(default_factory=dict)
    opened: bool = False
    resumed: bool = False
    preserve: frozenset[int] = frozenset()
    budget: ThoughtBudget | None = None
    single: bool = False
    doubled: bool = False

    def whole(self, completion: Completion) -> Ending:
        """A whole answer. Its pieces carry the tokens that a stream's do."""
        reader = AnswerReader(self)
        if completion.probabilities:
            for token in completion.probabilities:
                reader.take(Delta(token.text, (token,)))
        else:
            reader.push(completion.text)
        reader.last()
        return reader.ending(completion)

    def watch(self) -> Callable[[str], bool]:
        """For one answer: what is told its text and says whether a call was complete (`Generation.complete`)."""
        reader = AnswerReader(self)
        return lambda text: any(piece.calls for piece in reader.push(text))


PLAIN = Reading()
"""All text is content."""


class AnswerReader:
    """Reads one answer as it grows. The joined pieces are the same however the text was cut.

    Blanks and line breaks around thoughts and calls are no text. A thought that is not closed lasts to the end; one
    without text is nothing. What begins like a call and is none stays text, its markers included.
    """

    def __init__(self, reading: Reading) -> None:
        self._thought, self._calls, self._tools = reading.thought, reading.calls, reading.tools
        self._cursor = Cursor()
        self._call: Generator[None, None, list[Call]] | None = None
        self._opened_at = 0
        """Where the call that is being read began, and how long its opener is."""
        self._opener = ""
        self._thinking = reading.opened and reading.thought is not None
        self._thought_over = reading.thought is None or reading.opened
        """No thought may begin the answer any more."""
        self._unsaid = True
        """Nothing was said yet, but thoughts and calls: what may only begin an answer may come."""
        self._trims = self._thinking and not reading.resumed
        """Space that comes next belongs to a marker."""
        self._space = ""
        """Space that belongs to a marker if one comes next."""
        self._broken = 0
        self._single, self._over = reading.single, False
        self._doubled = reading.doubled
        self._reasoned = False
        self._out: list[Piece] = []
        if self._thinking and reading.thought is not None and not reading.resumed:
            self._double(reading.thought.opening)
        self._sent: list[Piece] = []
        self._carried = Delta("")
        """What came with text that has not left yet."""

    def take(self, delta: Delta) -> list[Piece]:
        """Take in what the lane sent; returns the pieces that may leave now, the last with all that came along."""
        carried = self._carried
        self._carried = Delta("", carried.tokens + delta.tokens, carried.ids + delta.ids, delta.timings, delta.slot)
        return self._laden(self.push(delta.text))

    def last(self) -> list[Piece]:
        """`finish`, with what is left of what came along."""
        pieces = self.finish()
        if not pieces and (self._carried.tokens or self._carried.ids):
            self._sent.append(Piece())
            pieces = self._sent[-1:]
        return self._laden(pieces)

    def _laden(self, pieces: list[Piece]) -> list[Piece]:
        if not pieces:
            return pieces
        carried, self._carried = self._carried, Delta("")
        laden = replace(pieces[-1], tokens=carried.tokens, ids=carried.ids, timings=carried.timings, slot=carried.slot)
        self._sent[-1] = laden
        return [*pieces[:-1], laden]

    def push(self, text: str) -> list[Piece]:
        """Take in text; returns the pieces that may leave now."""
        if self._thought is None and self._calls is None:
            self._emit(text)
        else:
            self._cursor.feed(text)
            self._advance()
        return self._taken()

    def finish(self) -> list[Piece]:
        """The answer is over; returns what was held back."""
        self._cursor.end()
        self._advance()
        if not self._thinking:
            self._emit(self._space)
        return self._taken()

    def ending(self, completion: Completion) -> Ending:
        """The end of the answer, after `finish`."""
        return Ending(
            completion,
            pieces=tuple(_joined(self._sent)),
            content="".join(piece.content for piece in self._sent),
            reasoning="".join(piece.reasoning for piece in self._sent),
            calls=tuple(call for piece in self._sent for call in piece.calls),
        )

    def _taken(self) -> list[Piece]:
        taken, self._out = self._out, []
        self._sent += taken
        return taken

    def _advance(self) -> None:
        """Read as far as the text there is decides."""
        while not self._over and (self._read_call() if self._call is not None else self._read_text()):
            pass
        if self._over:
            self._cursor.at = len(self._cursor.text)
        if self._call is None:
            self._cursor.compact()

    def _read_text(self) -> bool:
        """Read to the next marker; False when what follows is not decided yet."""
        cursor = self._cursor
        if self._unsaid and not self._thinking and not self._read_beginning():
            return False
        if self._call is not None:
            return True
        start = cursor.at
        markers = self._markers()
        found = _pattern(markers).search(cursor.text, start) if markers else None
        undecided = len(cursor.text) if cursor.ended else _undecided(cursor.text, start, markers)
        end = found.start() if found else len(cursor.text)
        if found is None or undecided <= end:
            cursor.at = min(undecided, end)
            self._write(cursor.text[start : cursor.at])
            return False
        self._write(cursor.text[start:end])
        cursor.at = end
        self._pass(found[0])
        return True

    def _read_beginning(self) -> bool:
        """Decide whether what may only begin an answer comes; False while that is open."""
        cursor = self._cursor
        openings = self._openings()
        begun = cursor.text[cursor.at :].lstrip(SPACE)
        if not cursor.ended and any(len(begun) < len(opening) and opening.startswith(begun) for opening in openings):
            return False
        found = next((opening for opening in openings if begun.startswith(opening)), None)
        if found is not None:
            cursor.at = len(cursor.text) - len(begun)
            self._pass(found)
        else:
            self._unsaid = False
        return True

    def _openings(self) -> tuple[str, ...]:
        """The texts that mean something before anything is said."""
        openings: tuple[str, ...] = ()
        if self._thought is not None and not self._thought.anywhere and not self._thought_over:
            openings += (self._thought.opening,)
        if self._calls is not None and self._calls.begins_answers:
            openings += self._openers
        return openings

    @property
    def _openers(self) -> tuple[str, ...]:
        return self._calls.openers if self._calls is not None and self._broken < MAX_BROKEN else ()

    def _markers(self) -> tuple[str, ...]:
        """The texts that mean something here."""
        thought, calls = self._thought, self._calls
        markers: tuple[str, ...] = ()
        if thought is not None and thought.anywhere:
            markers += thought.markers
        elif thought is not None and self._thinking:
            markers += (thought.closing,)
        if calls is not None and not calls.begins_answers and (calls.ends_thought or not self._thinking):
            markers += self._openers
        return markers

    def _pass(self, marker: str) -> None:
        """Go on behind a marker, or begin to read a call."""
        thought = self._thought
        if self._calls is not None and marker in self._openers:
            self._opened_at, self._opener = self._cursor.at, marker
            self._call = self._calls.read(self._cursor, self._tools)
            return
        self._cursor.at += len(marker)
        if thought is not None and marker == (thought.closing if self._thinking else thought.opening):
            self._thinking, self._thought_over = not self._thinking, True
            self._trims, self._space = True, ""
            self._double(marker)
            if self._thinking and self._reasoned:
                self._out.append(Piece(reasoning="\n"))

    def _read_call(self) -> bool:
        """Read on in a call; False when it needs more text."""
        assert self._call is not None
        try:
            next(self._call)
            return False
        except StopIteration as stop:
            calls = tuple(stop.value)
            self._out.append(Piece(calls=calls[:1] if self._single else calls))
            self._over = self._single
            self._thinking = False
            self._trims, self._space = True, ""
        except Malformed:
            self._broken += 1
            self._cursor.at = self._opened_at + len(self._opener)
            self._unsaid = False
            self._write(self._opener)
        self._call = None
        return True

    def _write(self, text: str) -> None:
        """Text of the part that is being read; space at its end waits where a marker may follow."""
        if self._trims:
            text = text.lstrip(SPACE)
            self._trims = not text
        text, self._space = self._space + text, ""
        if self._markers():
            whole, text = text, text.rstrip(SPACE)
            self._space = whole[len(text) :]
        self._emit(text)

    def _double(self, marker: str) -> None:
        """A marker that is content as well."""
        if self._doubled:
            self._out.append(Piece(content=marker))

    def _emit(self, text: str) -> None:
        if not text:
            return
        if self._thinking:
            self._out.append(Piece(reasoning=text, content=text if self._doubled else ""))
            self._reasoned = True
        else:
            self._out.append(Piece(content=text))


def _joined(pieces: list[Piece]) -> Iterator[Piece]:
    """Neighbours of one kind as one piece."""
    for _, neighbours in groupby(pieces, key=lambda piece: (bool(piece.content), bool(piece.reasoning))):
        group = list(neighbours)
        yield Piece(
            "".join(piece.content for piece in group),
            "".join(piece.reasoning for piece in group),
            tuple(call for piece in group for call in piece.calls),
            tuple(token for piece in group for token in piece.tokens),
        )


@lru_cache(maxsize=256)
def _pattern(markers: tuple[str, ...]) -> re.Pattern[str]:
    """Finds the first of `markers`, the longest of those at one place."""
    return re.compile("|".join(re.escape(marker) for marker in sorted(markers, key=len, reverse=True)))


def _undecided(text: str, start: int, markers: tuple[str, ...]) -> int:
    """Where the end of `text` begins that may become a marker, or a longer one; the length of the text if nowhere."""
    longest = max(map(len, markers), default=1)
    for at in range(max(start, len(text) - longest + 1), len(text)):
        if any(len(text) - at < len(marker) and marker.startswith(text[at:]) for marker in markers):
            return at
    return len(text)
