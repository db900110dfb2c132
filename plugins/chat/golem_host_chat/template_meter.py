"""What one rendering of a chat template may spend: steps, size and processor time.

A template comes out of a model file, so it is hostile input. Jinja's sandbox keeps it away from the process but not
from the clock and the memory: nested loops, doubled strings and lists of lists of themselves are all legal. Every
rendering therefore runs on a :class:`Meter`, which the sandbox (`template_sandbox`) asks before or after each
operation that can amplify.
"""

from __future__ import annotations

import time
from typing import Any

from jinja2.exceptions import TemplateRuntimeError

MAX_STEPS = 2_000_000
"""Loop rounds, calls and filters of one rendering; a thousand turns compared with each other need one million."""
MAX_SECONDS = 5.0
"""Processor time of the rendering thread: what the steps alone do not bound (a step may read a long string)."""
BASE_SIZE = 1024 * 1024
"""Characters a rendering may produce beyond its share of the input."""
SIZE_PER_INPUT = 64
"""Characters a rendering may produce, all intermediate strings included, per character of conversation and tools."""
NODE_SIZE = 16
"""What one value inside a container counts for, beside the length of a string."""

# The views' own types: a check against collections.abc costs a microsecond per value.
_CONTAINERS = (list, tuple, dict, set, frozenset, type({}.keys()), type({}.values()), type({}.items()))


class Meter:
    """The budget of one rendering. Every method raises `TemplateRuntimeError` when the budget is spent.

    `size` budgets the sum of all strings and lists produced; no single value may be larger than it either, counted as
    the tree it prints as (a list that holds itself twice, twice over, is small in memory and endless on paper).
    """

    __slots__ = ("_deadline", "_inputs", "_limit", "_remaining", "_steps")

    def __init__(self, inputs: Any) -> None:
        self._inputs: dict[int, int] = {}
        self._limit = self._remaining = float("inf")
        size = self._measure_input(inputs)
        self._limit = self._remaining = BASE_SIZE + SIZE_PER_INPUT * size
        self._steps = 0
        self._deadline = time.thread_time() + MAX_SECONDS

    def _measure_input(self, value: Any) -> int:
        """Size of an input value; containers are remembered by identity: they outlive the rendering unchanged."""
        if isinstance(value, str):
            return NODE_SIZE + len(value)
        if isinstance(value, dict):
            size = sum(self._measure_input(key) + self._measure_input(item) for key, item in value.items())
        elif isinstance(value, list | tuple):
            size = sum(self._measure_input(item) for item in value)
        else:
            return NODE_SIZE
        self._inputs[id(value)] = size + NODE_SIZE
        return size + NODE_SIZE

    def tick(self, size: int = 0) -> None:
        """One step; `size` is text that step may add."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise TemplateRuntimeError(f"the template takes more than {MAX_STEPS} steps")
        if not self._steps & 15 and time.thread_time() > self._deadline:
            raise TemplateRuntimeError(f"the template takes more than {MAX_SECONDS:g} seconds")
        if size:
            self.charge(size)

    def charge(self, size: int) -> None:
        """Spend `size` characters."""
        if size > self._remaining:
            raise TemplateRuntimeError("the template produces too much text")
        self._remaining -= size

    def weigh(self, value: Any) -> int:
        """Size of `value` printed as a tree; raises when no budget could ever print it."""
        total = 0
        pending = [value]
        while pending:
            item = pending.pop()
            if isinstance(item, str):
                total += NODE_SIZE + len(item)
            elif isinstance(item, _CONTAINERS):
                known = self._inputs.get(id(item))
                if known is not None:
                    total += known
                else:
                    total += NODE_SIZE
                    pending.extend(item.values() if isinstance(item, dict) else item)
                    if isinstance(item, dict):
                        pending.extend(item)
            else:
                total += NODE_SIZE
            if total > self._limit:
                raise TemplateRuntimeError("the template builds a value that is too large")
        return total

    def admit(self, value: Any) -> Any:
        """Account for a value the template has just produced, and hand it on."""
        if isinstance(value, str):
            self.charge(len(value))
        elif isinstance(value, _CONTAINERS) and id(value) not in self._inputs:
            self.charge(NODE_SIZE + len(value))
            self.weigh(value)
        return value
