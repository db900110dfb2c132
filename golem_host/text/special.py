"""Special tokens in a text: where they are found, before the rest is tokenized.

The rule is llama.cpp's (`tokenizer_st_partition`): the longest token first, each splitting what is still text, from the
left. Tokens are matched as characters, so a special token that is not UTF-8 is never found in a text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from golem_host.text.token_type import TokenType
from golem_host.text.vocab import Vocab

_BEGINNING = 3
_WHITESPACE = " \t\n\v\f\r"  # what C's isspace says: the strip rules know no other


@dataclass(frozen=True)
class _Special:
    id: int
    text: str
    hidden: bool  # only found where special tokens may be written in the text
    strip_left: bool
    strip_right: bool


class SpecialTokens:
    """Finds the tokens of type CONTROL, UNKNOWN and USER_DEFINED of a vocabulary in texts.

    `strip_left` and `strip_right` hold ids whose neighbouring whitespace belongs to the token.
    """

    def __init__(self, vocab: Vocab, strip_left: Collection[int] = (), strip_right: Collection[int] = ()) -> None:
        found = []
        for kind in (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED):
            for id in (vocab.types == kind).nonzero()[0].tolist():
                raw = vocab.token(id)
                try:
                    text = raw.decode("utf-8")
                except UnicodeDecodeError:
                    continue
                if text:
                    hidden = kind is not TokenType.USER_DEFINED
                    found.append((-len(raw), id, _Special(id, text, hidden, id in strip_left, id in strip_right)))
        ranked = [special for _, _, special in sorted(found, key=lambda entry: entry[:2])]
        # a vocabulary may have thousands (`<unused0>`...): by their beginnings most are ruled out together
        self._by_beginning: dict[str, list[tuple[int, _Special]]] = {}
        for rank, special in enumerate(ranked):
            self._by_beginning.setdefault(special.text[:_BEGINNING], []).append((rank, special))

    def split(self, text: str, parse_special: bool) -> list[int | str]:
        """The text as special ids and the stretches of plain text between them.

        USER_DEFINED tokens are found always, CONTROL and UNKNOWN ones when `parse_special`.
        """
        present = [
            (rank, special)
            for beginning, specials in self._by_beginning.items()
            if beginning in text
            for rank, special in specials
            if special.text in text and (parse_special or not special.hidden)
        ]
        if not present:
            return [text] if text else []
        taken = bytearray(len(text))
        found: list[tuple[int, int, int]] = []
        for _, special in sorted(present, key=lambda entry: entry[0]):
            found += _claim(text, special, taken)
        pieces: list[int | str] = []
        at = 0
        for start, end, id in sorted(found):
            if start > at:
                pieces.append(text[at:start])
            pieces.append(id)
            at = end
        if at < len(text):
            pieces.append(text[at:])
        return pieces


def _claim(text: str, special: _Special, taken: bytearray) -> Iterator[tuple[int, int, int]]:
    """Start, end and id of each occurrence in what is still text, from the left, with the whitespace it takes along.

    `taken` has a 1 for each character that is text no more. A text may hold thousands of different tokens, so each
    costs a search, not a look at all pieces.
    """
    at = text.find(special.text)
    while at >= 0:
        start, end = at, at + len(special.text)
        last_taken = taken.rfind(1, start, end)
        if last_taken >= 0:
            at = text.find(special.text, last_taken + 1)
            continue
        while special.strip_left and start and not taken[start - 1] and text[start - 1] in _WHITESPACE:
            start -= 1
        while special.strip_right and end < len(text) and not taken[end] and text[end] in _WHITESPACE:
            end += 1
        taken[start:end] = b"\1" * (end - start)
        yield start, end, special.id
        at = text.find(special.text, end)
