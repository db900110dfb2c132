"""WordPiece tokenization (`tokenizer.ggml.model` = `bert`): words, and the longest pieces that spell them.

Source: `llm_tokenizer_wpm_session` of llama-vocab.cpp. GGUF files mark the beginning of a word with U+2581 where BERT
marks its continuations with `##`. Unlike BERT's own code it knows no longest word, and of a decomposed character it
keeps the first part only.
"""

from __future__ import annotations

import unicodedata
from functools import cached_property

from golem_host.text.spacemark import SPACE_MARK, SPACE_MARK_BYTES
from golem_host.text.vocab import Defaults, Vocab
from golem_host.text.words import WordCache
from golem_host.weights import Gguf, GgufError

_WHITESPACE = frozenset(
    [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
)
"""Unicode's White_Space."""
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
"""Each of them is a word; the bounds are those of BERT's code, a slip in the sixth row included."""


class WordPieceModel:
    """Encodes plain text with the pieces of a vocabulary."""

    def __init__(self, gguf: Gguf) -> None:
        defaults = Defaults(bos=101, unk=100, sep=102, pad=0, mask=103, add_bos=True, add_sep=True)
        self.vocab = Vocab(gguf, defaults, force_bos=True, force_sep=True)
        if self.vocab.unk is None:
            raise GgufError(gguf.path, "'tokenizer.ggml.unknown_token_id' is missing, which this tokenizer needs")
        self._unknown = self.vocab.unk
        lowercase = gguf.boolean("tokenizer.ggml.normalizer.lowercase", True)
        strip_accents = gguf.boolean("tokenizer.ggml.normalizer.strip_accents", lowercase)
        self._characters = _Characters(lowercase=lowercase, strip_accents=strip_accents)

    def encode(self, text: str, at_start: bool) -> list[int]:
        """Ids of a stretch of plain text; where it stands makes no difference."""
        return self._cache.ids(text.translate(self._characters).split(), self._word)

    def plain(self, token: bytes) -> bytes:
        """The text of a NORMAL token, a space before each word."""
        return token.replace(SPACE_MARK_BYTES, b" ")

    @cached_property
    def _cache(self) -> WordCache:
        return WordCache()

    @cached_property
    def _pieces(self) -> dict[str, int]:
        return {token.decode("utf-8", "surrogateescape"): id for token, id in self.vocab.ids.items()}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._pieces), default=0)

    def _word(self, word: str) -> list[int]:
        """The longest piece, again and again; the unknown token for a word that cannot be spelled to its end."""
        pieces, longest = self._pieces, self._longest
        word = SPACE_MARK + word
        ids = []
        at = 0
        while at < len(word):
            end = min(len(word), at + longest)
            while end > at and word[at:end] not in pieces:
                end -= 1
            if end == at:
                return [self._unknown]
            ids.append(pieces[word[at:end]])
            at = end
        return ids


class _Characters(dict[int, str]):
    """What each character of a text becomes (for `str.translate`), worked out when it first occurs.

    Whitespace becomes a space, control characters nothing; punctuation and ideographs stand between spaces.
    """

    def __init__(self, *, lowercase: bool, strip_accents: bool) -> None:
        super().__init__()
        self._lowercase = lowercase
        self._strip_accents = strip_accents

    def __missing__(self, code: int) -> str:
        made = self[code] = self._made(chr(code))
        return made

    def _made(self, character: str) -> str:
        if self._strip_accents:
            character = unicodedata.normalize("NFD", character)[0]
        code = ord(character)
        if code in _WHITESPACE:
            return " "
        category = unicodedata.category(character)
        if code in (0, 0xFFFD) or category in ("Cc", "Cf", "Co", "Cs"):
            return ""
        if self._strip_accents and category[0] == "M":
            return ""
        if self._lowercase:
            character = character.lower()[0]  # more than one only for U+0130, whose dot is an accent
        alone = category[0] == "P" or (category[0] == "S" and code < 0x7F)
        if alone or any(first <= code <= last for first, last in _IDEOGRAPHS):
            return f" {character} "
        return character
