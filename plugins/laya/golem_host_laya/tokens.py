"""The tokenizer of a checkpoint, and the tokens that frame a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from golem_host.api import ModelFileError
from golem_host.text.tokenizer_json import guarded, open_tokenizer_json
from golem_host.weights.config_json import Config, read_config


class Tokens:
    """Texts as ids. `first`, `separator` and `mask` are the ids of the tokens that frame a sequence."""

    def __init__(self, folder: Path, rows: int) -> None:
        """Open `folder`, whose ids must be rows of a table of `rows`. Raises `ModelFileError`."""
        self._tokenizer, _ = open_tokenizer_json(folder / "tokenizer.json", rows)
        config = read_config(folder / "tokenizer_config.json")
        self.first, self.separator = (self._id(config, _text(config, f"{name}_token")) for name in ("cls", "sep"))
        self._mask = _text(config, "mask_token")
        self.mask = self._id(config, self._mask)

    def _id(self, config: Config, text: str) -> int:
        found = self._tokenizer.token_to_id(text)
        if found is None:
            raise ModelFileError(config.path, f"names the token {text!r}, which tokenizer.json does not have")
        return found

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Each text's ids without anything around them; the mask token in a text is a space."""
        plain = [text.replace(self._mask, " ") for text in texts]
        found = guarded(lambda: self._tokenizer.encode_batch_fast(plain, add_special_tokens=False))
        return [each.ids for each in found]


def _text(config: Config, key: str) -> str:
    """A token's text, given as such or as an object with its `content`."""
    value: Any = config.values.get(key)
    text = value.get("content") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text:
        raise ModelFileError(config.path, f"'{key}' is {value!r}; the text of a token is expected")
    return text
