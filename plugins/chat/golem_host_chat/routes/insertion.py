"""`suffix`: prompts that ask for what is between two texts, where the vocabulary has tokens for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from golem_host.errors import BadRequest
from golem_host_chat.routes.context_limit import encode_within
from golem_host_chat.routes.llama_infill import between
from golem_host_chat.routes.prompt_shapes import Segment, segment_tokens

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime


def insertion_tokens(runtime: ChatRuntime, segments: list[Segment], suffix: str, limit: int) -> list[int]:
    """The prompt that asks for what is between a prompt and `suffix`. Raises `BadRequest` where there is none, and
    `ContextExceeded` for texts that cannot be under `limit` tokens.
    """
    marks = runtime.tokenizer.vocab.infill
    if marks is None:
        raise BadRequest(
            f"Field 'suffix': model '{runtime.model.name}' does not support insert: its vocabulary has no such tokens",
            param="suffix",
        )
    prefix = segment_tokens(runtime.tokenizer, segments, limit)
    after = encode_within(runtime.tokenizer, suffix, limit, add_special=False)
    return between(runtime.tokenizer, marks, prefix, after)
