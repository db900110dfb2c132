"""A compiled constraint and its progress through one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golem_host.errors import BadRequest
from golem_host_chat.constraints.deep_stack import on_deep_stack
from golem_host_chat.constraints.vocabulary import ConstraintVocabulary, UncompiledError

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

LONGEST_REASON = 300
"""Characters of a compiler's message that are told: it may quote what it was given, of any length."""

_OPTIONS = '%llguidance {"no_forcing": true}\n'
"""Without it, where only one text can follow, only one way of cutting it into tokens is allowed, and is searched for
again at every token."""


class Constraint:
    """What answers of one request must look like. Threads may share it.

    `grammar` is in llguidance's variant of Lark and begins at `start`. Raises `UncompiledError` for one that does not
    compile, takes too much to, or that no text fits.
    """

    def __init__(self, vocabulary: ConstraintVocabulary, grammar: str) -> None:
        self._tokens: LLTokenizer = vocabulary.prepared()
        self._matcher = on_deep_stack(lambda: _compiled(self._tokens, grammar))

    def begin(self) -> Progress:
        """For one answer, at its beginning."""
        return Progress(self._matcher.deep_copy(), self._tokens.vocab_size)


class Progress:
    """How far an answer has come under its constraint."""

    def __init__(self, matcher: LLMatcher, tokens: int) -> None:
        self._matcher = matcher
        self._mask = np.empty((tokens + 31) // 32, np.uint32)

    def allowed(self) -> NDArray[np.uint32]:
        """The tokens that may come next: bit `id % 32` of element `id // 32`; valid until the next call.

        Tokens that end an answer are among them when it may end here. Raises `BadRequest` when the constraint takes too
        much to follow.
        """
        self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        self._raise_fault()
        return self._mask

    def accept(self, token: int) -> None:
        """`token`, one that is allowed, is part of the answer."""
        self._matcher.consume_token(token)
        self._raise_fault()

    @property
    def finished(self) -> bool:
        """Whether nothing but an end may follow."""
        return self._matcher.is_stopped()

    def _raise_fault(self) -> None:
        if self._matcher.is_error():
            raise BadRequest(f"the constraint could not be followed further: {_reason(self._matcher.get_error())}")


def _compiled(tokens: LLTokenizer, grammar: str) -> LLMatcher:
    from llguidance import LLMatcher

    matcher = LLMatcher(tokens, _OPTIONS + grammar, log_level=0, limits=_limits())
    _raise_uncompiled(matcher)
    beginning = matcher.deep_copy()
    beginning.compute_bitmask()
    _raise_uncompiled(beginning)
    return matcher


def _limits() -> Any:
    """How much a constraint may take. What a message may hold of it is bounded by `verbose_errors`."""
    from llguidance import LLParserLimits

    # Of one mask: its fuel is about 14,000 a millisecond. A state is one or two kilobytes.
    return LLParserLimits(
        verbose_errors=False, step_lexer_fuel=100_000, max_items_in_row=10_000, max_lexer_states=50_000
    )


def _raise_uncompiled(matcher: LLMatcher) -> None:
    if matcher.is_error():
        reason = _reason(matcher.get_error())
        raise UncompiledError("no text can fit it" if reason.startswith("NoExtension") else reason)


def _reason(message: str) -> str:
    lines = [line.strip() for line in message.split("\n")]
    text = next((line for line in lines if line.startswith("error:")), lines[0]).removeprefix("error:").strip()
    text = text.split("failed to compile JSON schema: ", 1)[-1]
    return text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON] + "..."
