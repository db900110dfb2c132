"""Tokens that take the whitespace beside them along; GGUF has no field for it, so model and rule names decide.

Source: the end of `load` in llama-vocab.cpp.
"""

from __future__ import annotations

from golem_host.text.token_type import TokenType
from golem_host.text.vocab import Vocab
from golem_host.weights import Gguf

_PHI3_PLAIN = (b"<unk>", b"<s>", b"<|endoftext|>")
_SPECIAL = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)


def stripping_tokens(gguf: Gguf, vocab: Vocab) -> tuple[frozenset[int], frozenset[int]]:
    """Ids whose whitespace on the left, and ids whose whitespace on the right, belongs to them."""
    pre = gguf.string("tokenizer.ggml.pre", "")
    architecture = gguf.string("general.architecture", "")
    name = gguf.string("general.name", "").lower()
    if any(part in pre for part in ("jina-v2-de", "jina-v2-es", "jina-v2-code")) or any(
        part in architecture for part in ("nomic-bert-moe", "jina-bert-v3")
    ):
        return frozenset(vocab.ids[text] for text in (b"<mask>",) if text in vocab.ids), frozenset()
    if "phi-3" in name or "phi3" in name:
        plain = {vocab.ids.get(text) for text in _PHI3_PLAIN}
        ids = [id for kind in _SPECIAL for id in (vocab.types == kind).nonzero()[0].tolist()]
        return frozenset(), frozenset(id for id in (*ids, vocab.ids.get(b"</s>")) if id is not None and id not in plain)
    return frozenset(), frozenset()
