"""A request of another API as one of `/v1/chat/completions`, whose refusals still speak of what the caller wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields, kind_of

_MESSAGE = re.compile(r"messages\[\d+\](?:\.tool_calls\[\d+\])?")


@dataclass(frozen=True)
class Translated:
    """`body` is the chat request.

    `places` maps its messages and calls (`messages[3]`, `messages[3].tool_calls[0]`) to where the caller wrote them,
    `members` their members (`tool_call_id`) and `fields` its fields (`max_tokens`) to the caller's names.
    """

    body: dict[str, Any]
    places: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def named_as_written(self) -> Iterator[None]:
        """Refusals of the chat request name what the caller wrote."""
        try:
            yield
        except BadRequest as error:
            error.message = self._renamed(error.message)
            error.param = error.param and self._renamed(error.param)
            raise

    def _renamed(self, text: str) -> str:
        text = _MESSAGE.sub(self._place, text)
        for name, written in self.members.items():
            text = re.sub(rf"(?<=[\])])\.{re.escape(name)}\b", f".{written}", text)
        for name, written in self.fields.items():
            text = re.sub(rf"(?:^|(?<=')){re.escape(name)}\b", written, text)
        return text

    def _place(self, found: re.Match[str]) -> str:
        whole = found[0]
        if whole in self.places:
            return self.places[whole]
        message = whole.partition(".")[0]
        return self.places.get(message, message) + whole[len(message) :]


def texts_of(fields: Fields, name: str, kinds: Mapping[str, str]) -> str | list[dict[str, str]]:
    """The content in a field, as a chat message has it: a string, or text parts.

    `kinds` maps the types of parts that are read to the member that holds their text. Raises `BadRequest` for parts of
    another type, by name. An absent field is empty text.
    """
    content = fields.value(name)
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise fields.fault(name, f"expected a string or an array, got {kind_of(content)}")
    parts = []
    for part in members_of(fields, name):
        kind = part.string("type")
        if kind is None or kind not in kinds:
            raise part.fault("type", f"{kind!r} is not served here: text is read, of type {', '.join(kinds)}")
        text = part.string(kinds[kind])
        if text is None:
            raise part.fault(kinds[kind], "is missing")
        parts.append({"type": "text", "text": text})
    return parts


def members_of(fields: Fields, name: str) -> list[Fields]:
    """The objects in an array, each knowing its place; none when it is absent. Raises `BadRequest` for others."""
    found = []
    for index, member in enumerate(fields.array(name) or ()):
        if not isinstance(member, dict):
            raise fields.fault(f"{name}[{index}]", f"expected an object, got {kind_of(member)}")
        found.append(Fields(member, f"{fields.prefix}{name}[{index}]."))
    return found


def required(fields: Fields, name: str) -> str:
    """A string that has to be there and is not empty."""
    value = fields.string(name)
    if not value:
        raise fields.fault(name, "is missing")
    return value
