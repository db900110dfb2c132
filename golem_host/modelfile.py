"""Ollama's Modelfile: its text as the fields of `/api/create`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from golem_host.errors import BadRequest
from golem_host.printable import printable

MAX_CHARACTERS = 2**20

_WORD = re.compile(r"[^\S\n]*(\S+)[^\S\n]*")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_ROLES = ("system", "user", "assistant")


def read_modelfile(text: str) -> dict[str, Any]:
    """The fields `from`, `system`, `template`, `parameters`, `messages` and `license` that it says.

    Instructions in any case, one a line; lines that begin with `#` are comments. A value lasts to the end of its line,
    or stands between quotes, or three of them, on as many lines as it likes; there are no escapes. There is one `FROM`;
    of others that are said twice the last counts, but `MESSAGE`, `LICENSE` and stop strings, which add up. Raises
    BadRequest naming the line.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadRequest(f"Field 'modelfile': it has more than {MAX_CHARACTERS} characters", param="modelfile")
    return _Reader(text).read()


@dataclass
class _Reader:
    text: str
    at: int = 0
    said: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)

    def read(self) -> dict[str, Any]:
        while (word := self._word()) is not None:
            if word.startswith("#"):
                self._line()
            else:
                self._instruction(word)
        if "from" not in self.said:
            raise BadRequest("Field 'modelfile': it has no FROM", param="modelfile")
        return {**self.said, "parameters": self.parameters}

    def _instruction(self, word: str) -> None:
        begun = self.at
        match word.upper():
            case "FROM" if "from" in self.said:
                raise self._fault("there is a FROM already", begun)
            case "FROM" | "SYSTEM" | "TEMPLATE":
                self.said[word.lower()] = self._value()
            case "LICENSE":
                self.said.setdefault("license", []).append(self._value())
            case "MESSAGE":
                role = self._argument("a role").lower()
                if role not in _ROLES:
                    raise self._fault(f"the role is one of {', '.join(_ROLES)}", begun)
                self.said.setdefault("messages", []).append({"role": role, "content": self._value()})
            case "PARAMETER":
                name = self._argument("a name").lower()
                if name == "stop":
                    self.parameters.setdefault("stop", []).append(self._value())
                else:
                    self.parameters[name] = _typed(self._value())
            case "ADAPTER" | "REQUIRES":
                raise self._fault(f"{word.upper()} is not served", begun)
            case _:
                raise self._fault(f"unknown instruction {printable(word, 40)!r}", begun)

    def _word(self) -> str | None:
        """The first word of the next line that has one; None at the end."""
        while self.at < len(self.text):
            found = _WORD.match(self.text, self.at)
            if found:
                self.at = found.end()
                return found[1]
            self._line()
        return None

    def _argument(self, what: str) -> str:
        """A word that a value follows."""
        found = _WORD.match(self.text, self.at)
        if found is None:
            raise self._fault(f"{what} is missing", self.at)
        self.at = found.end()
        return found[1]

    def _value(self) -> str:
        begun = self.at
        quote = next((mark for mark in ('"""', '"') if self.text.startswith(mark, begun)), None)
        if quote is None:
            value = self._line().strip()
        else:
            end = self.text.find(quote, begun + len(quote))
            if end < 0:
                raise self._fault(f"the text after {quote} has no end", begun)
            value = self.text[begun + len(quote) : end]
            self.at = end + len(quote)
            if self._line().strip():
                raise self._fault(f"something follows the closing {quote}", end)
        if not value and quote is None:
            raise self._fault("a value is missing", begun)
        return value

    def _line(self) -> str:
        """The rest of this line, which is passed."""
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        line, self.at = self.text[self.at : end], end + 1
        return line

    def _fault(self, reason: str, at: int) -> BadRequest:
        line = self.text.count("\n", 0, at) + 1
        return BadRequest(f"Field 'modelfile': line {line}: {reason}", param="modelfile")


def _typed(text: str) -> Any:
    """A number or a truth value where it reads as one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    return float(text) if found[1] or found[2] or len(text) > 20 else int(text)
