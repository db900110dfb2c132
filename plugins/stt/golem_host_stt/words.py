"""When words are said, told from where pads and ends of padding stand among the text tokens.

As Rust's `moshi-core` (`asr.rs`): a word's tokens come `delay` steps after what it says; an end of padding (token 0)
stands where one word ends and the next begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from golem_host_stt.mimi_config import FRAME_RATE
from golem_host_stt.text import END_OF_PADDING, Pieces


@dataclass(frozen=True)
class WordBegun:
    """A word, or several that follow each other without a pause; `start` in seconds of the audio."""

    tokens: tuple[int, ...]
    start: float


@dataclass(frozen=True)
class WordEnded:
    """The end of the word before, in seconds of the audio."""

    stop: float


class WordTimes:
    """Follows one stream, step by step, from that of the beginning on."""

    def __init__(self, delay: int, padding: int) -> None:
        self._delay, self._silent = delay, {END_OF_PADDING, padding}
        self._step = 0
        self._pending: list[int] = []
        self._last_stop = 0.0
        self._unended = False

    def add(self, token: int) -> list[WordBegun | WordEnded]:
        """What the token of the next step tells."""
        self._step += 1
        if self._step < self._delay:
            return []
        told: list[WordBegun | WordEnded] = []
        if token not in self._silent:
            self._pending.append(token)
            return told
        if self._pending:
            told.append(WordBegun(tuple(self._pending), self._last_stop))
            self._pending.clear()
            self._unended = True
        if token == END_OF_PADDING:
            stop = (self._step - self._delay) / FRAME_RATE
            if self._unended:
                told.append(WordEnded(stop))
                self._unended = False
            self._last_stop = stop
        return told

    def end(self, seconds: float) -> list[WordBegun | WordEnded]:
        """What is left when the audio, that long, has ended."""
        told: list[WordBegun | WordEnded] = []
        if self._pending:
            told.append(WordBegun(tuple(self._pending), self._last_stop))
        return [*told, WordEnded(seconds)] if told or self._unended else []


@dataclass(frozen=True)
class Word:
    """A word of a transcript; `start` and `end` in seconds of what the client sent."""

    text: str
    start: float
    end: float
    tokens: tuple[int, ...]


def split_words(begun: WordBegun, stop: float, pieces: Pieces) -> list[Word]:
    """The words of one group: where several came without a pause, each but the last takes a frame for each token."""
    groups: list[list[int]] = []
    for token in begun.tokens:
        if not groups or pieces.bytes_of(token).startswith(b" "):
            groups.append([])
        groups[-1].append(token)
    words: list[Word] = []
    start, stop = begun.start, max(begun.start, stop)
    for at, group in enumerate(groups):
        end = stop if at == len(groups) - 1 else min(stop, start + len(group) / FRAME_RATE)
        text = pieces.text(group).strip()
        if text:
            words.append(Word(text, start, end, tuple(group)))
        start = end
    return words
