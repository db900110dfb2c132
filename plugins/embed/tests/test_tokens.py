"""How much of the texts of a request is tokenized, and what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from golem_host.errors import BadRequest
from golem_host_embed.tokens import LONGEST, QUICK, Frame, TextTokens


class Counting:
    """A tokenizer with a token for each word, and how many characters it was given at once."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self.tokens = TextTokens(self.encode, Frame((1,), (2,), (2,), 1), 10)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        self.given.append(sum(map(len, texts)))
        return [[5] * len(text.split()) for text in texts]


def test_texts_are_tokenized_as_they_are_asked_for() -> None:
    counting = Counting()
    texts = counting.tokens.texts(["a " * (QUICK // 2)] * 2048, 8)
    assert len(next(texts)) == QUICK // 2 + 2
    assert counting.given == [QUICK]


def test_short_texts_are_tokenized_together_and_keep_their_order() -> None:
    counting = Counting()
    words = [n % 5 for n in range(100)]
    texts = ["a" * 300 + " b" * n for n in words]
    assert [len(text) for text in counting.tokens.texts(texts, 99)] == [3 + n for n in words]
    assert len(counting.given) == 1
    lengths = [1, QUICK, QUICK + 1, 5, 5, QUICK * 3, 0]
    assert [len(text) for text in counting.tokens.texts(["a" * n for n in lengths], 99)] == [3] * 6 + [2]
    assert max(counting.given) == QUICK * 3


def test_pairs_with_a_long_text_are_made_one_by_one() -> None:
    counting = Counting()
    pairs = counting.tokens.pairs("a " * 20_000, ("b" for _ in iter(int, 1)), 8)
    assert len(next(pairs)) == 20_000 + 4


@pytest.mark.parametrize("text", ["a" * (LONGEST + 1), " " * (LONGEST + 1), "\u4f60" * 3 * LONGEST])
def test_a_text_that_cannot_be_judged_by_its_beginning(text: str) -> None:
    counting = Counting()
    assert len(next(counting.tokens.texts([text[:LONGEST]], 8))) <= 3
    with pytest.raises(BadRequest, match=f"a text of {len(text)} characters is too long"):
        list(counting.tokens.texts([text], 8))
    assert max(counting.given) <= LONGEST
