"""Tokenizers, and text as it streams out; no torch."""

from __future__ import annotations

from golem_host.text.stream import TextStream
from golem_host.text.token_type import TokenType
from golem_host.text.tokenizer import Tokenizer, tokenizer_from_gguf
from golem_host.text.vocab import Vocab

__all__ = ["TextStream", "TokenType", "Tokenizer", "Vocab", "tokenizer_from_gguf"]
