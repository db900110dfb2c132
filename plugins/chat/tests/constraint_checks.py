"""Texts through the masks of a constraint, byte by byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from golem_host.testing.tiny import tiny_gguf
from golem_host.text.tokenizer import Tokenizer, tokenizer_from_gguf
from golem_host.weights.gguf import open_gguf
from golem_host_chat.constraints.constraint import Constraint
from golem_host_chat.constraints.json_schema import json_rule
from golem_host_chat.constraints.lexemes import gbnf_rules
from golem_host_chat.constraints.masking import allows
from golem_host_chat.constraints.vocabulary import ConstraintVocabulary


class Masks:
    """Constraints over a tiny vocabulary that has every byte."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.vocabulary = ConstraintVocabulary(tokenizer)
        self.ends = tokenizer.vocab.end_of_generation
        self._bytes = {piece: id for id, piece in enumerate(tokenizer.pieces()) if len(piece) == 1}
        assert len(self._bytes) == 256

    def schema(self, schema: Any) -> Constraint:
        return Constraint(self.vocabulary, f"start: answer\nanswer: {json_rule(schema)}\n")

    def gbnf(self, grammar: str) -> Constraint:
        return Constraint(self.vocabulary, f"start: answer\n{gbnf_rules(grammar)}")

    def fits(self, constraint: Constraint, text: str | bytes) -> bool:
        """Whether an answer may be `text` and end there."""
        progress = constraint.begin()
        for byte in text if isinstance(text, bytes) else text.encode():
            token = self._bytes[bytes([byte])]
            if not allows(progress.allowed(), token):
                return False
            progress.accept(token)
        mask = progress.allowed()
        ends = {allows(mask, end) for end in self.ends}
        assert len(ends) == 1, "one end token is allowed and another is not"
        return ends.pop()


@contextmanager
def masks(folder: Path) -> Iterator[Masks]:
    with open_gguf(tiny_gguf(folder / "masks.gguf", "llama")) as gguf:
        yield Masks(tokenizer_from_gguf(gguf))


def document(value: Any) -> str:
    """A value as JSON text; a text stays as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
