"""What a notation of calls is, and what reading one yields."""

from __future__ import annotations

import json
import math
import secrets
import string
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from golem_host_chat.formats.cursor import Cursor

Tools = Mapping[str, Mapping[str, Any]]
"""The functions a request declares: the schema of the parameters, by name."""

MAX_DEPTH = 128
"""Values within values of a call's arguments."""

_ALPHABET = string.ascii_letters + string.digits


def new_call_id() -> str:
    """An id no other call of a conversation has."""
    return "call_" + "".join(secrets.choice(_ALPHABET) for _ in range(24))


@dataclass(frozen=True)
class Call:
    """A call of a tool. `arguments` is the JSON text of an object, finite numbers only."""

    name: str
    arguments: str
    id: str = field(default_factory=new_call_id)

    @property
    def object(self) -> dict[str, Any]:
        return json.loads(self.arguments)

    @classmethod
    def of(cls, name: Any, arguments: Any) -> Call:
        """A call with these JSON values; none at all are an empty object, a text is read as JSON. Raises
        `Malformed` for a name that is no text and arguments that are no object.
        """
        if isinstance(arguments, str):
            arguments = parse_json(arguments) if arguments.strip() else None
        arguments = {} if arguments is None else arguments
        if not isinstance(name, str) or not name or not isinstance(arguments, dict) or _too_deep(arguments):
            raise Malformed
        text = json.dumps(arguments, ensure_ascii=False)
        # JSON can spell half a character, which no client could encode.
        return cls(name, text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _contents(outer)]
    return bool(level)


def _contents(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


class Malformed(Exception):
    """What began like a call is none; its text stays text."""


def parse_json(text: str) -> Any:
    """The value of a JSON text; raises `Malformed` for what is none, numbers that are not finite included."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise Malformed from error


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


class Writer(Protocol):
    """Writes the parts of a grammar: each method returns an expression, to be put one after the other, into brackets,
    or apart by `|`.
    """

    def text(self, text: str) -> str:
        """This text, control tokens among it as such."""
        ...

    def until(self, end: str) -> str:
        """Any text up to the first `end`, and that."""
        ...

    def pattern(self, regex: str) -> str:
        """A text that the regular expression takes whole."""
        ...

    def json(self, schema: Mapping[str, Any]) -> str:
        """A JSON text that fits the schema; raises `ValueError` for one that cannot be enforced."""
        ...

    def rule(self, body: str, name: str = "") -> str:
        """A name for an expression, which may contain the `name` it is given; the same one again is not made anew."""
        ...


class CallFormat(Protocol):
    """One notation of calls."""

    @property
    def openers(self) -> tuple[str, ...]:
        """The texts that begin calls."""
        ...

    @property
    def begins_answers(self) -> bool:
        """Whether an opener counts only where nothing was said before it."""
        ...

    @property
    def markers(self) -> tuple[str, ...]:
        """All fixed texts of the notation; control tokens among them must leave as text to be read."""
        ...

    @property
    def ends_thought(self) -> bool:
        """Whether a call may end a thought that was not closed."""
        ...

    def read(self, cursor: Cursor, tools: Tools) -> Generator[None, None, list[Call]]:
        """Read the calls (of `tools`, as a rule) that begin at `cursor`, which is at one of the openers.

        Yields when more text is needed and returns at the end of the last call that belongs to this opener. Raises
        `Malformed`. What it returns depends on the text alone, not on how it was cut.
        """
        ...

    def grammar(self, write: Writer, tools: Tools, *, several: bool) -> str:
        """What an answer looks like that calls one of `tools`, or with `several` one or more of them."""
        ...
