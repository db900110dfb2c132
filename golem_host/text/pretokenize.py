"""Pre-tokenizers of byte-level BPE: how a text is cut into words, by the name in `tokenizer.ggml.pre`.

A rule is one or more regular expressions applied in turn, each to every word the one before it left. Each expression
matches some word at every position, so nothing of the text is lost. Sources: the checkpoints' tokenizer.json and
`llm_tokenizer_bpe` of llama-vocab.cpp. Where llama.cpp only approximates the checkpoints' expressions, those here are
the checkpoints': for `tekken` and `gpt-4o` it cuts words at combining marks and knows no case beyond ASCII, for
`deepseek-llm` and `deepseek-coder` it leaves spaces beyond ASCII out of the classes they are in.
"""

from __future__ import annotations

from dataclasses import dataclass

import regex

_CONTRACTION = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"

_LLAMA3 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_QWEN2 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    rf"|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
)
_GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+(?:{_CONTRACTION})?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*(?:{_CONTRACTION})?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
)
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_EACH_DIGIT = r"\p{N}|\P{N}+"
_PUNCTUATION_RUNS = r"[\p{P}$+<=>^~|]+|[^\p{P}$+<=>^~|]+"
_DIGIT_RUNS = r"\p{N}+|\P{N}+"
_DIGIT_TRIPLES = r"[0-9]{3}|(?s:(?:(?![0-9]{3}).)+)"
_SEED_CODER = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}"
_THREE_DIGITS = r"\p{N}{1,3}|\P{N}+"
_MINICPM5 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_FALCON_PUNCTUATION = r"[\p{P}$+<=>^~|`]+|[^\p{P}$+<=>^~|`]+"
_EACH_LINE_END = r"[\r\n]|[^\r\n]+"
_IDEOGRAPHS = r"[\u0800-\u9FA5\uAC00-\uD7FF]+|[^\u0800-\u9FA5\uAC00-\uD7FF]+"
_LAST_SPACES = r"\s*\S(?:(?s:.*)\S)?|\s+"
# The letters that had case when the list was written, without Georgian and mathematical ones.
_CASED = (
    r"[[\p{Lu}\p{Ll}\p{Lt}\u0295]--[\u0560-\u0588\u10C7-\u10FF\u1C80-\u1C8A\u2D00-\u2D2D\uA790-\uA7FA\uAB30-\uAB6D"
    r"\U00010570-\U000105BC\U00010D50-\U00010D85\U00016E40-\U00016ED3\U0001D400-\U0001DF96]]"
)
_WIDE_PUNCTUATION = r"[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]"


def _or_rest(expression: str) -> str:
    """The expression, or everything up to where it matches next."""
    return rf"(?V1){expression}|(?s:(?:(?!{expression}).)+)"


_DEEPSEEK_LLM = (
    _EACH_LINE_END,
    _or_rest(rf"\s?{_CASED}+"),
    _or_rest(rf"\s?{_WIDE_PUNCTUATION}+"),
    _LAST_SPACES,
    _IDEOGRAPHS,
    _DIGIT_RUNS,
)
_DEEPSEEK_CODER = (_EACH_LINE_END, _or_rest(r"\s?\p{L}+"), _or_rest(r"\s?\p{P}+"), _IDEOGRAPHS, _EACH_DIGIT)


@dataclass(frozen=True)
class PreTokenizer:
    """A named rule. `ignore_merges`: a word that is a token is taken whole; `add_bos`: the default of such files."""

    expressions: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False

    def words(self, text: str) -> list[str]:
        """The words of the text; joined they are the text again."""
        words = [text]
        for expression in self.expressions:
            find = regex.compile(expression).findall
            words = [part for word in words for part in find(word)]
        return words


_LLAMA3_RULE = PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True)
_GPT2_RULE = PreTokenizer((_GPT2,))
_QWEN2_RULE = PreTokenizer((_QWEN2,))
_GPT4O_RULE = PreTokenizer((_GPT4O,))
_DIGITS_GPT2_RULE = PreTokenizer((_EACH_DIGIT, _GPT2))

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    "default": PreTokenizer((_PUNCTUATION_RUNS, _GPT2, _DIGIT_RUNS, _DIGIT_TRIPLES)),
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3", "pixtral", "lfm2", "midm-2.0", "falcon3", "falcon-h1"), _LLAMA3_RULE
    ),
    **dict.fromkeys(("smaug-bpe", "dbrx"), PreTokenizer((_LLAMA3,))),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "f2llmv2", "kormo", "megrez"), _QWEN2_RULE),
    "qwen35": PreTokenizer((_QWEN35,)),
    "tekken": PreTokenizer((_TEKKEN,), ignore_merges=True, add_bos=True),
    **dict.fromkeys(("gpt-4o", "llama4"), _GPT4O_RULE),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "minerva-7b"), _DIGITS_GPT2_RULE),
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "a.x-4.0", "mellum", "trillion"), _GPT2_RULE),
    "seed-coder": PreTokenizer((_SEED_CODER,)),
    "minicpm5": PreTokenizer((_THREE_DIGITS, _MINICPM5), ignore_merges=True),
    "falcon": PreTokenizer((_FALCON_PUNCTUATION, _GPT2, _DIGIT_TRIPLES)),
    "deepseek-llm": PreTokenizer(_DEEPSEEK_LLM),
    "deepseek-coder": PreTokenizer(_DEEPSEEK_CODER),
}
