"""Which tokens end an answer, and which types the file got wrong: decided by the tokens' texts.

Files name one end token and often have several; `load` in llama-vocab.cpp finds the others by text, and so does this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from golem_host.text.token_type import TokenType

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
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<end_of_utterance>",
)
_END_OF_MESSAGE = ("<|eom_id|>",)
_OTHER_ENDS = (
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
_FIM_PAD = ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]")
_FIM_REPOSITORY = ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>")
_FIM_SEPARATOR = ("<|file_sep|>",)
FIM_PREFIX = (
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<\uff5cfim\u2581begin\uff5c>",
    "<PRE>",
    "\u2581<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
)
FIM_SUFFIX = (
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<\uff5cfim\u2581hole\uff5c>",
    "<SUF>",
    "\u2581<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
)
FIM_MIDDLE = (
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<\uff5cfim\u2581end\uff5c>",
    "<MID>",
    "\u2581<MID>",
    "<|code_middle|>",
    "<|middle|>",
)
_HARMONY_VISIBLE = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")


@dataclass(frozen=True)
class Roles:
    """Ids with a role, None where there is no such token. The fill-in-the-middle ones end an answer, too."""

    eot: int | None
    eom: int | None
    fim_pad: int | None
    fim_rep: int | None
    fim_sep: int | None


@dataclass(frozen=True)
class Endings:
    """`roles` complete, `types` that replace those in the file, `ends`: all ids that end an answer."""

    roles: Roles
    types: Mapping[int, TokenType]
    ends: frozenset[int]


def find_endings(ids: Mapping[bytes, int], named: Roles, eos: int | None) -> Endings:
    """Complete the roles the file names, by the texts of its tokens.

    Of several texts for a role the first listed counts. Every token found by its text is a control token, whatever the
    file says, with the exceptions below.
    """

    def present(texts: tuple[str, ...]) -> list[int]:
        return [ids[text.encode()] for text in texts if text.encode() in ids]

    def first(texts: tuple[str, ...]) -> int | None:
        return next(iter(present(texts)), None)

    found = Roles(
        eot=first(_END_OF_TURN),
        eom=first(_END_OF_MESSAGE),
        fim_pad=first(_FIM_PAD),
        fim_rep=first(_FIM_REPOSITORY),
        fim_sep=first(_FIM_SEPARATOR),
    )
    roles = replace(found, **{role: id for role, id in vars(named).items() if id is not None})
    by_text = present((*_END_OF_TURN, *_END_OF_MESSAGE, *_OTHER_ENDS))
    control = {*by_text, *vars(found).values(), first(FIM_PREFIX), first(FIM_SUFFIX), first(FIM_MIDDLE)}
    types = {id: TokenType.CONTROL for id in control if id is not None}
    types |= dict.fromkeys(present(_HARMONY_VISIBLE), TokenType.USER_DEFINED)
    ends = {id for id in (*by_text, *vars(roles).values(), eos) if id is not None}

    ends_by_call = present(("<|call|>", "<|calls|>")) and present(("<|return|>", "<|flush|>"))
    if ends_by_call and (section := first(("<|end|>",))) is not None:  # gpt-oss, solar-open: it only ends a section
        ends.discard(section)
        types[section] = TokenType.USER_DEFINED
    if present(("<|tool_response>",)) and (tag := first(("</s>",))) is not None:  # Gemma 4: a tag of HTML
        ends.discard(tag)
        types[tag] = TokenType.NORMAL
    return Endings(roles, types, frozenset(ends))
