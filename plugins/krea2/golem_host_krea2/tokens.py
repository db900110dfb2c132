"""The tokenizer, which the three files do not contain, and a prompt's tokens in Krea 2's template."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golem_host.api import ModelFileError
from golem_host.text.tokenizer_json import guarded, open_tokenizer_json
from golem_host.weights import open_gguf
from golem_host.weights.config_json import read_json_file

TEMPLATE = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial "
    "relationships of the objects and background:<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
COMFY_FOLDER = Path("comfy/text_encoders/qwen25_tokenizer")
"""Where ComfyUI's own tree has it."""
_START = "<|im_start|>"
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen2 cuts a text into words."""


@dataclass(frozen=True)
class PromptTokens:
    """A prompt in its template; the first `leading` tokens are read and give no conditioning."""

    ids: list[int]
    leading: int


class Tokens:
    """Qwen2's tokenizer from wherever there is one; `source` says where."""

    def __init__(self, encode: Callable[[str], list[int]], source: Path, rows: int) -> None:
        self._encode = encode
        self.source = source
        start, user, line = (self._single(text) for text in (_START, "user", "\n"))
        self._start, self._after = start, [user, line]
        if max(encode(TEMPLATE)) >= rows:
            raise ModelFileError(source, f"has ids that the text encoder's {rows} rows do not have")

    def _single(self, text: str) -> int:
        ids = self._encode(text)
        if len(ids) != 1:
            raise ModelFileError(self.source, f"is no tokenizer of Qwen2: {text!r} is {len(ids)} tokens and not one")
        return ids[0]

    def prompt(self, text: str) -> PromptTokens:
        """Tokens of a prompt; one that begins with `<|im_start|>` is a whole template itself. Slow for long texts."""
        whole = text if text.startswith(_START) else TEMPLATE.format(text)
        ids = self._encode(whole)
        starts = [at for at, token in enumerate(ids) if token == self._start]
        leading = starts[min(1, len(starts) - 1)]
        if ids[leading + 1 : leading + 3] == self._after and len(ids) > leading + 3:
            leading += 3
        return PromptTokens(ids, leading)


def open_tokens(given: Path | None, comfy: Path | None, encoder: Path, ggufs: Sequence[Path], rows: int) -> Tokens:
    """The tokenizer that is `given`, or ComfyUI's, or `tokenizer.json` beside the text encoder, or that of one of the
    GGUF files, if it is Qwen2's. Raises `ModelFileError` naming where none was found.
    """
    if given is not None:
        return _open(given, rows)
    places = (
        [encoder.parent / "tokenizer.json"]
        if comfy is None
        else [comfy / COMFY_FOLDER, encoder.parent / "tokenizer.json"]
    )
    for place in [*places, *(path for path in ggufs if _is_qwen2(path))]:
        if place.exists():
            return _open(place, rows)
    searched = ", ".join(str(place) for place in [*places, *ggufs])
    raise ModelFileError(
        encoder, f"comes without a tokenizer; none was found in {searched}. Name one with --krea2-tokenizer: "
        "ComfyUI's folder qwen25_tokenizer, a tokenizer.json, or a GGUF file of a Qwen model"
    )  # fmt: skip


def _open(path: Path, rows: int) -> Tokens:
    if path.is_dir():
        if (path / "vocab.json").is_file():
            return Tokens(_from_vocabulary(path), path, rows)
        path = path / "tokenizer.json"
    if path.suffix.lower() == ".gguf":
        if not _is_qwen2(path):
            raise ModelFileError(path, "has no tokenizer of Qwen2 (tokenizer.ggml.pre is not 'qwen2')")
        return Tokens(_from_gguf(path), path, rows)
    tokenizer, _ = open_tokenizer_json(path, rows)
    return Tokens(_encoder(tokenizer), path, rows)


def _is_qwen2(path: Path) -> bool:
    try:
        with open_gguf(path) as gguf:
            return gguf.string("tokenizer.ggml.pre", "") == "qwen2"
    except ModelFileError:
        return False


def _from_gguf(path: Path) -> Callable[[str], list[int]]:
    import unicodedata

    from golem_host.text.tokenizer import tokenizer_from_gguf

    tokenizer = tokenizer_from_gguf(open_gguf(path))
    return lambda text: tokenizer.encode(unicodedata.normalize("NFC", text), add_special=False)


def _from_vocabulary(folder: Path) -> Callable[[str], list[int]]:
    """`vocab.json`, `merges.txt` and the special tokens of `tokenizer_config.json`."""
    from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers
    from tokenizers.models import BPE

    vocabulary = read_json_file(folder / "vocab.json", dict)
    merges = _merges(folder / "merges.txt")
    try:
        tokenizer = guarded(lambda: Tokenizer(BPE(vocabulary, merges)))
    except Exception as error:
        raise ModelFileError(folder, f"is no tokenizer: {error}") from None
    tokenizer.normalizer = normalizers.NFC()  # type: ignore[misc]
    split = pre_tokenizers.Split(Regex(_SPLIT), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])  # type: ignore[misc]
    added = [(number, token) for number, token in _added(folder / "tokenizer_config.json") if token not in vocabulary]
    for number, token in added:  # ids are given in the order in which tokens are added
        tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
        if tokenizer.token_to_id(token) != number:
            raise ModelFileError(folder, f"its special token {token!r} has no place at id {number}")
    return _encoder(tokenizer)


def _merges(path: Path) -> list[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(path, f"cannot be read: {error}") from None
    pairs = [tuple(line.split(" ")) for line in lines if line.strip() and not line.startswith("#version")]
    if any(len(pair) != 2 for pair in pairs):
        raise ModelFileError(path, "has lines that are no pairs of tokens")
    return pairs  # type: ignore[return-value]


def _added(path: Path) -> list[tuple[int, str]]:
    """Ids and texts of the special tokens, by id."""
    listed: Any = read_json_file(path, dict).get("added_tokens_decoder")
    try:
        return sorted((int(number), str(token["content"])) for number, token in listed.items())
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ModelFileError(path, f"lists no special tokens: {json.dumps(listed)[:80]}") from None


def _encoder(tokenizer: Any) -> Callable[[str], list[int]]:
    return lambda text: guarded(lambda: tokenizer.encode(text, add_special_tokens=False)).ids
