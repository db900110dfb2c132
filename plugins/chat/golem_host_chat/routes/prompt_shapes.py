"""The shapes `/v1/completions` takes a `prompt` in, and their tokens."""

from __future__ import annotations

from typing import Any

from golem_host.errors import BadRequest
from golem_host.http.fields import kind_of
from golem_host.text.tokenizer import Tokenizer
from golem_host_chat.routes.context_limit import encode_within
from golem_host_chat.routes.token_ids import checked_ids

Segment = str | int


def prompt_segments(value: Any) -> list[list[Segment]]:
    """The prompts of a request, each a list of texts and token ids in their order.

    A string, or a list holding any number, is one prompt (texts and ids may be mixed); any other list is a list of
    prompts. Raises `BadRequest` naming the element at fault.
    """
    if value is None:
        raise BadRequest("'prompt' is required", param="prompt")
    if isinstance(value, str):
        return [[value]]
    if not isinstance(value, list):
        raise BadRequest(
            f"Field 'prompt': expected a string, token ids, or a list of those, got {kind_of(value)}", param="prompt"
        )
    if not value:
        raise BadRequest("Field 'prompt': the list is empty; it holds at least one prompt", param="prompt")
    if any(_is_id(element) for element in value):
        return [_segments(value, "prompt")]
    return [
        [element] if isinstance(element, str) else _segments(element, f"prompt[{index}]")
        for index, element in enumerate(value)
    ]


def prompt_tokens(tokenizer: Tokenizer, segments: list[Segment], limit: int) -> list[int]:
    """Token ids of one prompt. A leading text gets the BOS the vocabulary asks for; ids stand as they were given.

    Special tokens written out in a text count as such (llama-server). Raises `BadRequest` for an id outside the
    vocabulary and for a prompt without any token, `ContextExceeded` for a text that cannot be under `limit` tokens.
    """
    tokens = segment_tokens(tokenizer, segments, limit, add_special=True)
    if not tokens:
        raise BadRequest(
            "the prompt is empty, and this model's vocabulary adds no start token that could stand for it; "
            "send at least one character or token",
            param="prompt",
        )
    return tokens


def segment_tokens(
    tokenizer: Tokenizer, segments: list[Segment], limit: int, *, add_special: bool = False
) -> list[int]:
    """The same without a start token, unless a leading text is to get one; perhaps none."""
    tokens: list[int] = []
    for position, segment in enumerate(segments):
        if isinstance(segment, str):
            tokens += encode_within(tokenizer, segment, limit, add_special=add_special and position == 0)
        else:
            tokens += checked_ids(tokenizer, [segment], "prompt")
    return tokens


def prompt_text(tokenizer: Tokenizer, segments: list[Segment]) -> str:
    """The prompt as text, for `echo`; control tokens given by id show as nothing."""
    pieces = [segment.encode() if isinstance(segment, str) else tokenizer.piece(segment) for segment in segments]
    return b"".join(pieces).decode("utf-8", "replace")


def _segments(value: Any, name: str) -> list[Segment]:
    if isinstance(value, dict):
        raise BadRequest(
            f"Field '{name}': prompt objects (prompt_string, multimodal_data) are not served", param="prompt"
        )
    if not isinstance(value, list):
        raise BadRequest(f"Field '{name}': expected a string or token ids, got {kind_of(value)}", param="prompt")
    if not value:
        raise BadRequest(f"Field '{name}': the list is empty; a prompt holds at least one token", param="prompt")
    for index, element in enumerate(value):
        if not isinstance(element, str) and not _is_id(element):
            raise BadRequest(
                f"Field '{name}[{index}]': expected a token id or a string, got {kind_of(element)}", param="prompt"
            )
    return value


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
