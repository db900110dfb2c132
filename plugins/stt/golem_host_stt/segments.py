"""Words gathered to segments: sentences, turns, and what silence parts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from golem_host_stt.listening import Transcript
from golem_host_stt.words import Word

SILENCE = 1.0
"""Seconds between two words that part segments."""
LONGEST = 30.0
"""Seconds of a segment, as far as words allow."""
_ENDS = (".", "?", "!", "…", "。", "？", "！")


@dataclass(frozen=True)
class Segment:
    """Times in seconds; `logprob` is the mean of its tokens, 0 where none was asked for."""

    text: str
    start: float
    end: float
    tokens: list[int]
    logprob: float


def segments(transcript: Transcript) -> list[Segment]:
    """The words of a transcript, cut after a sentence's end, a turn's end, a second of silence, or half a minute."""
    groups: list[list[Word]] = []
    for word in transcript.words:
        if not groups or _parted(groups[-1], word, transcript.turns):
            groups.append([])
        groups[-1].append(word)
    logprobs = iter(_by_word(transcript))
    return [_segment(group, [next(logprobs) for _ in group]) for group in groups]


def _parted(group: list[Word], word: Word, turns: list[float]) -> bool:
    last = group[-1]
    return (
        last.text.endswith(_ENDS)
        or word.start - last.end >= SILENCE
        or word.end - group[0].start > LONGEST
        or bisect_left(turns, last.end) < bisect_right(turns, word.start)
    )


def _by_word(transcript: Transcript) -> list[list[float]]:
    """The log probabilities of each word's tokens. Tokens before those of the first word belong to none: they came
    before the model's delay was over.
    """
    at = len(transcript.tokens) - sum(len(word.tokens) for word in transcript.words)
    found = []
    for word in transcript.words:
        found.append(transcript.logprobs[at : at + len(word.tokens)])
        at += len(word.tokens)
    return found


def _segment(words: list[Word], logprobs: list[list[float]]) -> Segment:
    all_logprobs = [each for word in logprobs for each in word]
    mean = sum(all_logprobs) / len(all_logprobs) if all_logprobs else 0.0
    tokens = [token for word in words for token in word.tokens]
    return Segment(" ".join(word.text for word in words), words[0].start, words[-1].end, tokens, round(mean, 4))
