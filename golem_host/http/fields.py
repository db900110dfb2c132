"""Fields of a request body, by type. A null is the same as an absent field, everywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, overload

from golem_host.errors import BadRequest
from golem_host.parsers import nearest
from golem_host.printable import printable

LONGEST_NAME = 100
"""Characters told of a field's name that nobody knows."""

_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
"""Integers outside signed and unsigned 64 bits fit no field."""


class Fields:
    """Reads the fields of `obj` and names them `prefix + name` in errors (`Fields(options, "options.")`).

    Every reader raises BadRequest for a wrong type or a value out of bounds, with `param` set to the field.
    """

    def __init__(self, obj: Mapping[str, Any], prefix: str = "") -> None:
        self.obj = obj
        self.prefix = prefix

    def value(self, name: str) -> Any:
        """The raw value; None when absent."""
        return self.obj.get(name)

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.obj.get(name) is not None

    def fault(self, name: str, reason: str) -> BadRequest:
        """The error to raise for a field: `Field 'name': reason`."""
        return BadRequest(f"Field '{self.prefix}{name}': {reason}", param=self.prefix + name)

    @overload
    def string(self, name: str, default: str) -> str: ...
    @overload
    def string(self, name: str, default: None = None) -> str | None: ...
    def string(self, name: str, default: str | None = None) -> str | None:
        """A string."""
        return self._typed(name, str, "a string", default)

    @overload
    def boolean(self, name: str, default: bool) -> bool: ...
    @overload
    def boolean(self, name: str, default: None = None) -> bool | None: ...
    def boolean(self, name: str, default: bool | None = None) -> bool | None:
        """true or false."""
        return self._typed(name, bool, "a boolean", default)

    def array(self, name: str) -> list[Any] | None:
        """An array."""
        return self._typed(name, list, "an array", None)

    def object(self, name: str) -> dict[str, Any] | None:
        """An object."""
        return self._typed(name, dict, "an object", None)

    @overload
    def integer(self, name: str, default: int, minimum: int = ..., maximum: int = ...) -> int: ...
    @overload
    def integer(self, name: str, default: None = None, minimum: int = ..., maximum: int = ...) -> int | None: ...
    def integer(
        self, name: str, default: int | None = None, minimum: int = _SMALLEST, maximum: int = _LARGEST
    ) -> int | None:
        """An integer within inclusive bounds (64 bits by default); `3.0` is one, `true` is not."""
        value = self._as(name, int)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(name, "an integer", value)
        self._check_bounds(name, value, minimum, maximum)
        return value

    @overload
    def number(self, name: str, default: float, minimum: float = ..., maximum: float = ...) -> float: ...
    @overload
    def number(self, name: str, default: None = None, minimum: float = ..., maximum: float = ...) -> float | None: ...
    def number(
        self, name: str, default: float | None = None, minimum: float = -math.inf, maximum: float = math.inf
    ) -> float | None:
        """A finite number within inclusive bounds."""
        value = self._as(name, float)
        if value is None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong(name, "a number", value)
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self.fault(name, "expected a finite number")
        self._check_bounds(name, value, minimum, maximum)
        return value

    def refuse(self, name: str, reason: str, neutral: tuple[Any, ...] = ()) -> None:
        """Raise BadRequest `'name' is not served: reason`, unless absent, null or equal to one of `neutral`.

        `neutral` values ask for nothing (`[]`, False, 0); types count, so False is not 0.
        """
        value = self.value(name)
        if value is None or any(_same(value, harmless) for harmless in neutral):
            return
        raise BadRequest(f"'{self.prefix}{name}' is not served: {reason}", param=self.prefix + name)

    def refuse_others(self, *known: str) -> None:
        """Raise BadRequest naming the first field that is none of `known`: for an API of one's own, whose clients
        should learn of a misspelt field. A null asks for nothing.
        """
        for name in self.obj:
            if name not in known and self.has(name):
                shown = printable(name, LONGEST_NAME)
                raise BadRequest(
                    f"Field '{self.prefix}{shown}' is not known here{nearest(name, known)}; known: {', '.join(known)}",
                    param=self.prefix + shown,
                )

    def _as(self, name: str, kind: type) -> Any:
        """The value to be checked as a `kind`; for subclasses whose raw values are not those of JSON."""
        return self.value(name)

    def _typed(self, name: str, kind: type, expected: str, default: Any) -> Any:
        value = self._as(name, kind)
        if value is None:
            return default
        if not isinstance(value, kind):
            raise self._wrong(name, expected, value)
        return value

    def _wrong(self, name: str, expected: str, value: Any) -> BadRequest:
        return self.fault(name, f"expected {expected}, got {kind_of(value)}")

    def _check_bounds(self, name: str, value: float, minimum: float, maximum: float) -> None:
        if not minimum <= value <= maximum:
            raise self.fault(name, f"expected a value from {minimum} to {maximum}, got {value}")


def kind_of(value: Any) -> str:
    """The JSON type of a value, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"


def _same(value: Any, other: Any) -> bool:
    return isinstance(value, bool) == isinstance(other, bool) and value == other
