"""What a notation of calls is, and what reading one yields."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from golem_host_chat.formats.cursor import Cursor

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


class Malformed(Exception):
    """What began like a call is none; its text stays text."""


class CallFormat(Protocol):
    """One notation of calls."""

    @property
    def openers(self) -> tuple[str, ...]:
        """The texts that begin calls; each is looked for wherever the model writes."""
        ...

    @property
    def markers(self) -> tuple[str, ...]:
        """All fixed texts of the notation; control tokens among them must leave as text to be read."""
        ...

    @property
    def ends_thought(self) -> bool:
        """Whether a call may end a thought that was not closed."""
        ...

    def read(self, cursor: Cursor) -> Generator[None, None, list[Call]]:
        """Read the calls that begin at `cursor`, which is at one of the openers.

        Yields when more text is needed and returns at the end of the last call that belongs to this opener. Raises
        `Malformed`. What it returns depends on the text alone, not on how it was cut.
        """
        ...
