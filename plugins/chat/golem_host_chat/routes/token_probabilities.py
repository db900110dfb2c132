"""Probabilities of tokens: asking for them, and the objects that APIs write them as (llama-server's rules)."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Any

from golem_host.http.fields import Fields
from golem_host.text.tokenizer import Tokenizer
from golem_host_chat.generation import DrawnToken
from golem_host_chat.likelihoods import Probabilities

MOST = 20
"""Alternatives to each token at most, where OpenAI's and Ollama's APIs are spoken (and when none are named)."""
MOST_NATIVE = 100
"""The same for llama-server's `n_probs`."""


def of_chat(fields: Fields) -> Probabilities | None:
    """OpenAI's `logprobs` and `top_logprobs` of a chat, else `n_probs`. Raises `BadRequest` naming the field."""
    after = fields.boolean("post_sampling_probs", False)
    top = fields.integer("top_logprobs", minimum=0, maximum=MOST)
    if fields.boolean("logprobs", False):
        return Probabilities(MOST if top is None else top, after)
    if top:
        raise fields.fault("top_logprobs", "top_logprobs requires logprobs to be set to true")
    return _counted(fields, "n_probs", MOST_NATIVE, after)


def of_completion(fields: Fields) -> Probabilities | None:
    """`n_probs`, else `logprobs` as a number, of a completion. Raises `BadRequest` naming the field."""
    after = fields.boolean("post_sampling_probs", False)
    native = _counted(fields, "n_probs", MOST_NATIVE, after)
    plain = None if fields.value("logprobs") is False else _counted(fields, "logprobs", MOST, after)
    return native or plain


def of_ollama(fields: Fields) -> Probabilities | None:
    """Ollama's `logprobs` and `top_logprobs`. Raises `BadRequest` naming the field."""
    top = fields.integer("top_logprobs", 0)
    if not 0 <= top <= MOST:
        raise fields.fault("top_logprobs", f"top_logprobs must be between 0 and {MOST}")
    return Probabilities(top) if fields.boolean("logprobs", False) else None


def _counted(fields: Fields, name: str, most: int, after: bool) -> Probabilities | None:
    top = fields.integer(name, 0, minimum=0, maximum=most)
    return Probabilities(top, after) if top else None


class TokenWriter:
    """Writes the probabilities of an answer drawn with `wanted`; None: it has none."""

    def __init__(self, tokenizer: Tokenizer, wanted: Probabilities | None) -> None:
        self._tokenizer = tokenizer
        self._after = wanted is not None and wanted.after

    def entries(self, tokens: Iterable[DrawnToken]) -> list[dict[str, Any]]:
        """llama-server's entries: id, text and bytes of a token, its logprob (or prob), and those of the likeliest."""
        return [
            {
                "id": token.id,
                "token": token.text,
                "bytes": list(token.raw),
                self._value: token.likelihood.value,
                "top_probs" if self._after else "top_logprobs": [
                    {"id": id, **self._named(id, value)} for id, value in token.likelihood.top
                ],
            }
            for token in tokens
        ]

    def logprobs(self, tokens: Iterable[DrawnToken]) -> dict[str, Any] | None:
        """OpenAI's `logprobs` of a choice, null without tokens."""
        entries = self.entries(tokens)
        return {"content": entries} if entries else None

    def ollama(self, tokens: Iterable[DrawnToken]) -> dict[str, Any]:
        """Ollama's member `logprobs`, absent without tokens."""
        entries = []
        for token in tokens:
            entry: dict[str, Any] = {"token": token.text, "logprob": token.likelihood.value}
            if token.text:
                entry["bytes"] = list(token.raw)
            if token.likelihood.top:
                entry["top_logprobs"] = [self._named(id, value) for id, value in token.likelihood.top]
            entries.append(entry)
        return {"logprobs": entries} if entries else {}

    def response(self, tokens: Iterable[DrawnToken]) -> list[dict[str, Any]]:
        """The entries of OpenAI's responses."""
        return [
            {
                "token": token.text,
                "bytes": list(token.raw),
                "logprob": token.likelihood.value,
                "top_logprobs": [self._named(id, value) for id, value in token.likelihood.top],
            }
            for token in tokens
        ]

    @property
    def _value(self) -> str:
        return "prob" if self._after else "logprob"

    def _named(self, id: int, value: float) -> dict[str, Any]:
        raw = self._tokenizer.piece(id)
        return {"token": _valid(raw), "bytes": list(raw), self._value: value}


def _valid(raw: bytes) -> str:
    """The text of a token but a character it begins; what is no UTF-8 becomes U+FFFD."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(raw)
