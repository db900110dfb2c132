"""DRY: tokens that would go on repeating what was written before lose score, the more the longer the repetition.

The rule and its numbers follow llama.cpp's `src/llama-sampler.cpp` (b11434), which took them from koboldcpp.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from golem_host.text.tokenizer import Tokenizer
from golem_host_chat.sampling_filters import Candidates

Restarts = Mapping[int, Sequence[tuple[int, ...]]]
"""Token sequences that a repetition never reaches across: what may follow each first token."""

MAX_BREAKER_BYTES = 40
MAX_TAIL = 20
"""Tokens after the first that a sequence is told by."""
_KEPT = 8
_LARGEST_EXPONENT = 88.7228391
"""ln of the largest float32."""


@dataclass(frozen=True)
class DryRules:
    """A token that follows an earlier copy of the last L >= `allowed` tokens, among the last `last_n`, loses
    `multiplier` * `base` ** (L - `allowed`).
    """

    multiplier: float
    base: float
    allowed: int
    last_n: int
    restarts: Restarts


class Dry:
    """The filter of one answer. `prompt` are the tokens before it.

    Held as the length, for each token of the window, of the longest run that ends there and also ends the text: one
    pass over arrays for each token.
    """

    def __init__(self, rules: DryRules, prompt: Sequence[int]) -> None:
        self._rules = rules
        self._tokens = np.zeros(max(64, 2 * len(prompt)), np.int32)
        self._runs = np.zeros(len(self._tokens), np.int32)
        self._count = len(prompt)
        self._tokens[: self._count] = prompt
        first = self._first()
        self._runs[first : self._count] = _runs(self._tokens[first : self._count].tolist())
        self._settled: tuple[int, int] | None = None
        """Where the last sequence begins whose match can grow no more, and how many tokens follow its first."""
        self._seen = first
        """Tokens before are settled or begin no sequence."""
        single = (token for token, tails in rules.restarts.items() if () in tails)
        self._exempt = frozenset(single)
        base = np.float32(rules.base)
        self._base = float(base)
        self._longest = int(_LARGEST_EXPONENT / math.log(base)) if base > np.float32(1.000001) else None

    def accept(self, token: int) -> None:
        """`token` was drawn."""
        if self._count == len(self._tokens):
            self._tokens = np.concatenate((self._tokens, np.zeros_like(self._tokens)))
            self._runs = np.concatenate((self._runs, np.zeros_like(self._runs)))
        end, first = self._count, self._first()
        self._tokens[end] = token
        if end > first:
            same = self._tokens[first:end] == token
            longer = np.ones(end - first, np.int32)
            longer[1:] += self._runs[first : end - 1]
            self._runs[first:end] = np.where(same, longer, 0)
        self._count += 1

    def __call__(self, candidates: Candidates) -> None:
        first, end = self._first(), self._count
        limit = self._limit(first)
        if end - first <= self._rules.allowed or limit < self._rules.allowed:
            return
        # A run goes no further back than the window.
        inside = np.arange(1, end - first, dtype=np.int32)
        runs = np.minimum(np.minimum(self._runs[first : end - 1], inside), limit)
        repeated = np.flatnonzero(runs >= self._rules.allowed)
        worst: dict[int, int] = {}
        for token, run in zip(self._tokens[first + 1 + repeated].tolist(), runs[repeated].tolist(), strict=True):
            if token not in self._exempt:
                worst[token] = max(run, worst.get(token, 0))
        self._lower(candidates, worst)

    def _lower(self, candidates: Candidates, worst: Mapping[int, int]) -> None:
        ids = np.array(sorted(worst), np.int64)
        if candidates.ids is None:
            positions = ids
        else:
            positions = np.flatnonzero(np.isin(candidates.ids, ids))
            ids = candidates.ids[positions]
        if not len(positions):
            return
        penalties = np.array([self._penalty(worst[token]) for token in ids.tolist()], np.float32)
        candidates.change(positions, candidates.logits[positions] - penalties)

    def _penalty(self, run: int) -> float:
        exponent = run - self._rules.allowed
        if self._longest is not None:
            exponent = min(exponent, self._longest)
        try:
            return float(np.float32(self._rules.multiplier)) * self._base**exponent
        except OverflowError:  # only a base next to 1 is left without a longest exponent
            return math.inf

    def _first(self) -> int:
        """Where the window begins."""
        return max(0, self._count - self._rules.last_n)

    def _limit(self, first: int) -> int:
        """How many last tokens there are after the last sequence that ends repetitions."""
        restarts, end = self._rules.restarts, self._count
        if restarts:
            for at in range(end - 1, max(self._seen, first) - 1, -1):
                longest = self._match(at)
                if longest is not None:
                    self._settle(first)
                    return end - 1 - at - longest
            self._settle(first)
            if self._settled is not None and self._settled[0] >= first:
                at, longest = self._settled
                return end - 1 - at - longest
        return end - first

    def _settle(self, first: int) -> None:
        """Remember what further tokens cannot change."""
        settled = self._count - 1 - MAX_TAIL
        for at in range(settled, max(self._seen, first) - 1, -1):
            longest = self._match(at)
            if longest is not None:
                self._settled = at, longest
                break
        self._seen = max(self._seen, settled + 1)

    def _match(self, at: int) -> int | None:
        """Tokens after the first of the longest sequence that begins at `at`; None when none does."""
        tails = self._rules.restarts.get(int(self._tokens[at]))
        if tails is None:
            return None
        after = tuple(self._tokens[at + 1 : min(self._count, at + 1 + MAX_TAIL)].tolist())
        return max((len(tail) for tail in tails if after[: len(tail)] == tail), default=None)


def _runs(tokens: Sequence[int]) -> list[int]:
    """For each token the length of the longest run that ends there and also ends `tokens` (the Z algorithm, from the
    end); 0 for the last.
    """
    count = len(tokens)
    runs = [0] * count
    left = right = 0
    for back in range(1, count):
        run = min(runs[count - 1 - (back - left)], right - back + 1) if back <= right else 0
        if back + run > right:
            while back + run < count and tokens[count - 1 - run] == tokens[count - 1 - run - back]:
                run += 1
            left, right = back, back + run - 1
        runs[count - 1 - back] = run
    return runs


class RestartFinder:
    """Finds the token sequences that hold some text, for a vocabulary; threads may share it.

    The vocabulary's texts are joined on first use, and the last answers are kept.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._found: dict[tuple[str, ...], Restarts] = {}
        self._texts: _Texts | None = None

    def __call__(self, breakers: tuple[str, ...]) -> Restarts:
        """The sequences for texts of at most `MAX_BREAKER_BYTES` bytes; empty ones have none.

        A sequence's later tokens are those of the rest of a text alone; a rest that begins inside a character has none.
        """
        with self._lock:
            if breakers not in self._found:
                if self._texts is None:
                    self._texts = _Texts(self._tokenizer.pieces(special=True), self._tokenizer.vocab.add_space_prefix)
                if len(self._found) >= _KEPT:
                    self._found.pop(next(iter(self._found)))
                self._found[breakers] = _restarts(self._texts, breakers, self._tail)
            return self._found[breakers]

    def _tail(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special=False, parse_special=False)[:MAX_TAIL])


class _Texts:
    """The texts of a vocabulary as one array of bytes, each text's `ends` and `lengths` int64 (tokens,)."""

    def __init__(self, texts: Iterable[bytes], space_prefix: bool) -> None:
        # Where texts get a leading space, llama.cpp takes it off a token that stands alone.
        each = [text.removeprefix(b" ") if space_prefix else text for text in texts]
        self.joined = b"".join(each)
        self.bytes = np.frombuffer(self.joined, np.uint8)
        self.lengths = np.fromiter(map(len, each), np.int64, len(each))
        self.ends = np.cumsum(self.lengths)
        filled = np.flatnonzero(self.lengths)
        last = self.bytes[self.ends[filled] - 1]
        order = np.argsort(last, kind="stable")
        bounds = np.searchsorted(last[order], np.arange(257))
        self._by_last = [filled[order[bounds[byte] : bounds[byte + 1]]] for byte in range(256)]

    def holding(self, text: bytes) -> NDArray[np.int64]:
        """The tokens in which `text` is."""
        found = []
        at = self.joined.find(text)
        while at >= 0:
            token = int(np.searchsorted(self.ends, at, "right"))
            end = int(self.ends[token])
            if at + len(text) <= end:
                found.append(token)
                at = end
            else:
                at += 1
            at = self.joined.find(text, at)
        return np.array(found, np.int64)

    def ending_with(self, text: bytes) -> NDArray[np.int64]:
        """The tokens that end with `text`."""
        tokens = self._by_last[text[-1]]
        tokens = tokens[self.lengths[tokens] >= len(text)]
        for place in range(2, len(text) + 1):
            if not len(tokens):
                break
            tokens = tokens[self.bytes[self.ends[tokens] - place] == text[-place]]
        return tokens


def _restarts(texts: _Texts, breakers: Sequence[str], tail_of: Callable[[str], tuple[int, ...]]) -> Restarts:
    found: dict[int, list[tuple[int, ...]]] = {}

    def add(tokens: NDArray[np.int64], tail: tuple[int, ...]) -> None:
        for token in tokens.tolist():
            tails = found.setdefault(token, [])
            if tail not in tails:
                tails.append(tail)

    for breaker in breakers:
        raw = breaker.encode()
        if not raw:
            continue
        whole = texts.holding(raw)
        add(whole, ())
        for cut in range(1, len(raw)):
            try:
                rest = raw[cut:].decode()
            except UnicodeDecodeError:
                continue
            tokens = np.setdiff1d(texts.ending_with(raw[:cut]), whole)
            if len(tokens):
                add(tokens, tail_of(rest))
    return found
