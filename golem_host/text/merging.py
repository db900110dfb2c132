"""The merge loop that SentencePiece-style and byte-pair tokenizers share."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping


def merge(symbols: list[bytes], cost: Callable[[bytes, bytes], float | None]) -> list[bytes]:
    """Join neighbours, the cheapest pair first and of equally cheap ones the leftmost, until none has a cost.

    `cost(left, right)` is None for a pair that must not be joined. O(n log n) for n symbols.
    """
    count = len(symbols)
    symbols = [*symbols, b""]
    following = list(range(1, count + 1))
    preceding = list(range(-1, count))
    heap: list[tuple[float, int, int]] = []
    for left in range(count - 1):
        price = cost(symbols[left], symbols[left + 1])
        if price is not None:
            heap.append((price, left, len(symbols[left]) + len(symbols[left + 1])))
    heapq.heapify(heap)
    while heap:
        _, left, length = heapq.heappop(heap)
        right = following[left]
        first, second = symbols[left], symbols[right]
        if not first or not second or len(first) + len(second) != length:
            continue  # one of the two has been joined with another since
        joined = first + second
        symbols[left], symbols[right] = joined, b""
        after = following[left] = following[right]
        preceding[after] = left
        before = preceding[left]
        if before >= 0:
            price = cost(symbols[before], joined)
            if price is not None:
                heapq.heappush(heap, (price, before, len(symbols[before]) + len(joined)))
        if after < count:
            price = cost(joined, symbols[after])
            if price is not None:
                heapq.heappush(heap, (price, left, len(joined) + len(symbols[after])))
    return [symbol for symbol in symbols if symbol]


def merge_ranks(merges: Iterable[bytes]) -> Mapping[bytes, int]:
    """Ranks by "left right"; of equal merges the first counts.

    A pair is looked up as it is written. Symbols of a text hold no space, so a line with further spaces, which the
    format splits at the first, is never asked for.
    """
    lines = list(merges)
    return dict(zip(reversed(lines), range(len(lines) - 1, -1, -1), strict=True))
