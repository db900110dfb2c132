"""Special tokens in a text: where they are found, before the rest is tokenized.

The rule is llama.cpp's (`tokenizer_st_partition`): the longest token first, each splitting what is still text, from the
left. Tokens are matched as characters, so a special token that is not UTF-8 is never found in a text.
"""

from __future__ import annotations

from collections.abc import Collection
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
        pieces: list[int | str] = [text] if text else []
        for _, special in sorted(present, key=lambda entry: entry[0]):
            pieces = [part for piece in pieces for part in _split_one(piece, special)]
        return pieces


def _split_one(piece: int | str, special: _Special) -> list[int | str]:
    if isinstance(piece, int) or special.text not in piece:
        return [piece]
    parts: list[int | str] = []
    rest = piece
    while rest:
        before, mark, rest = rest.partition(special.text)
        if mark and special.strip_left:
            before = before.rstrip(_WHITESPACE)
        if before:
            parts.append(before)
        if mark:
            parts.append(special.id)
            if special.strip_right:
                rest = rest.lstrip(_WHITESPACE)
    return parts
