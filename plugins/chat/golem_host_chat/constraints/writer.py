"""Grammars of calls and thoughts, in llguidance's variant of Lark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from golem_host.text.token_type import TokenType
from golem_host.text.tokenizer import Tokenizer
from golem_host_chat.constraints.json_schema import json_rule


class GrammarWriter:
    """A `formats.base.Writer` for a vocabulary. `rules` are those that the expressions it returned speak of."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._names: dict[str, str] = {}
        self._rules: list[str] = []

    @property
    def rules(self) -> str:
        return "".join(f"{rule}\n" for rule in self._rules)

    def text(self, text: str) -> str:
        parts = self._parts(text)
        return " ".join(f"<[{part}]>" if isinstance(part, int) else json.dumps(part) for part in parts) or '""'

    def until(self, end: str) -> str:
        first, *others = self._parts(end)
        if isinstance(first, int):  # no text contains a control token
            return f"{self._terminal('/(?s:.*)/')} {self.text(end)}"
        assert not others
        return self._terminal(f"/(?s:.*){_escaped(end)}/", "[lazy]")

    def pattern(self, regex: str) -> str:
        return self._terminal(f"/{regex}/")

    def json(self, schema: Mapping[str, Any]) -> str:
        return self.rule(json_rule(dict(schema)))

    def rule(self, body: str, name: str = "") -> str:
        known = self._names.get(body)
        if known is None:
            known = self._names[body] = name or f"part{len(self._names)}"
            self._rules.append(f"{known}: {body}")
        return known

    def _terminal(self, body: str, option: str = "") -> str:
        known = self._names.get(body)
        if known is None:
            known = self._names[body] = f"PART{len(self._names)}" if not option else f"part{len(self._names)}"
            self._rules.append(f"{known}{option}: {body}")
        return known

    def _parts(self, text: str) -> list[int | str]:
        """Control tokens, and the texts between them."""
        vocab = self._tokenizer.vocab
        ids = set(self._tokenizer.encode(text, add_special=False))
        controls = {vocab.text(id): id for id in ids if vocab.type(id) in (TokenType.CONTROL, TokenType.UNKNOWN)}
        if not controls:
            return [text] if text else []
        cut = re.split("(" + "|".join(map(re.escape, controls)) + ")", text)
        return [controls.get(part, part) for part in cut if part]


def _escaped(text: str) -> str:
    """`text` as a part of a regular expression between slashes."""
    return re.sub(r"[^A-Za-z0-9_ ]", lambda found: f"\\x{{{ord(found[0]):x}}}", text)
