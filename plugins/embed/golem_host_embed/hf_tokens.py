"""The tokenizer of a directory: `tokenizer.json`, through the library that defines the format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from golem_host.api import ModelFileError
from golem_host.text.tokenizer_json import guarded, open_tokenizer_json
from golem_host_embed.tokens import Frame, TextTokens


def open_tokenizer(path: Path, rows: int, *, lowercase: bool) -> TextTokens:
    """The tokenizer in `path`, whose ids must be rows of a table of `rows`; `lowercase` texts before it.

    Raises `ModelFileError` for a file that is missing or cannot be used.
    """
    tokenizer, size = open_tokenizer_json(path, rows)

    def encode(texts: Sequence[str]) -> list[list[int]]:
        batch = [text.lower() for text in texts] if lowercase else list(texts)
        return [found.ids for found in guarded(lambda: tokenizer.encode_batch_fast(batch, add_special_tokens=False))]

    try:
        frame = guarded(lambda: _frame(tokenizer))
    except Exception as error:
        raise ModelFileError(path, f"puts special tokens where they are not understood ({error})") from None
    return TextTokens(encode, frame, size)


def _frame(tokenizer: Any) -> Frame:
    """What stands around a text and a pair, told by an example. Raises ValueError for anything but that."""
    one, pair = tokenizer.encode("a"), tokenizer.encode("a", "a")
    before, after = _around(one.sequence_ids, one.ids, 0)
    first = [at for at, sequence in enumerate(pair.sequence_ids) if sequence == 0]
    second = [at for at, sequence in enumerate(pair.sequence_ids) if sequence == 1]
    if not first or not second or first[-1] > second[0]:
        raise ValueError("a pair has no two parts")
    frame = Frame(before, after, tuple(pair.ids[first[-1] + 1 : second[0]]), pair.type_ids[second[0]])
    expected = [0] * second[0] + [frame.second] * (len(pair.ids) - second[0])
    around = (tuple(pair.ids[: first[0]]), tuple(pair.ids[second[-1] + 1 :]))
    if any(one.type_ids) or pair.type_ids != expected or around != (before, after):
        raise ValueError("a pair is framed otherwise than a text")
    return frame


def _around(
    sequences: Sequence[int | None], ids: Sequence[int], wanted: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    inside = [at for at, sequence in enumerate(sequences) if sequence == wanted]
    if not inside:
        raise ValueError("a text has no tokens of its own")
    return tuple(ids[: inside[0]]), tuple(ids[inside[-1] + 1 :])
