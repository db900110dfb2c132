"""Which tokens end an answer, and which types the file got wrong: decided by the tokens' texts.

Files name one end token and often have several; `load` in llama-vocab.cpp finds the others by text, and so does this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

_END_OF_TURN = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
)
_END_OF_MESSAGE = ("<|eom_id|>",)
_FIM_PAD = ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]")
_FIM_REPOSITORY = ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>")
_FIM_SEPARATOR = ("<|file_sep|>",)
_FIM_PARTS = (
    ("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>"),
    ("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>"),
    ("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>"),
)
_ALWAYS_END = (
    *_END_OF_TURN,
    *_END_OF_MESSAGE,
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "</s>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
)
_HARMONY_VISIBLE = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")


@dataclass(frozen=True)
class Roles:
    """Ids with a role, None where there is no such token."""

    eot: int | None
    eom: int | None
    fim_pad: int | None
    fim_rep: int | None
    fim_sep: int | None


def assign_roles(
    ids: Mapping[bytes, int], named: Roles, eos: int | None
) -> tuple[Roles, dict[int, str], frozenset[int]]:
    """Complete the roles the file names, by the texts of its tokens.

    Returns the roles, the types (names of TokenType) that replace those in the file, and all ids that end an answer.
    """

    def first(texts: tuple[str, ...]) -> int | None:
        return next((ids[text.encode()] for text in texts if text.encode() in ids), None)

    found = Roles(first(_END_OF_TURN), first(_END_OF_MESSAGE), first(_FIM_PAD), first(_FIM_REPOSITORY), first(_FIM_SEPARATOR))
    roles = replace(found, **{name: id for name, id in vars(named).items() if id is not None})
    by_text = {ids[text.encode()] for text in _ALWAYS_END if text.encode() in ids}
    control = by_text | {first(texts) for texts in _FIM_PARTS} | {id for id in vars(found).values()}
    types = {id: "CONTROL" for id in control if id is not None}
    ends = by_text | {id for id in (*vars(roles).values(), eos) if id is not None}

    for text in _HARMONY_VISIBLE:
        if text.encode() in ids:
            types[ids[text.encode()]] = "USER_DEFINED"
    end, has = ids.get(b"<|end|>"), {text for text in _ALWAYS_END if ids.get(text.encode(), -1) in ends}
    calls = "<|call|>" in has or "<|calls|>" in has
    if end in ends and calls and ("<|return|>" in has or "<|flush|>" in has):  # gpt-oss, solar-open: ends a section only
        ends.discard(end)
        types[end] = "USER_DEFINED"
    normal = ids.get(b"</s>")
    if normal in ends and b"<|tool_response>" in ids:  # Gemma 4: a tag of HTML
        ends.discard(normal)
        types[normal] = "NORMAL"
    return roles, types, frozenset(ends)
