"""Which characters can follow which in a regular part of a grammar (Glushkov's automaton).

How often something is repeated is not counted: {m,n} is read as any number of times. So more is possible here than the
grammar derives, never less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from golem_host_chat.constraints.charset import CharSet
from golem_host_chat.constraints.gbnf import Alt, Chars, Name, Node, Repeat, Seq

MAX_POSITIONS = 400


class TooLarge(Exception):
    """More than is looked at: `MAX_POSITIONS` characters, or the steps of a `Budget`."""


class Budget:
    """How many steps may still be taken; one is about a microsecond."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Raises `TooLarge` when none is left."""
        self._left -= steps
        if self._left < 0:
            raise TooLarge


@dataclass(frozen=True)
class Automaton:
    """`chars[i]` is what position i takes, `after[i]` the positions that may follow it, `first` and `last` those that a
    text may begin and end with.
    """

    chars: tuple[CharSet, ...] = ()
    after: tuple[frozenset[int], ...] = ()
    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    nullable: bool = True

    @property
    def first_chars(self) -> CharSet:
        return self.union(self.first)

    def union(self, positions: frozenset[int]) -> CharSet:
        """What any of `positions` takes."""
        return CharSet.of(each for position in positions for each in self.chars[position].ranges)

    def then(self, other: Automaton, budget: Budget) -> Automaton:
        """This one, and `other` after it. Raises `TooLarge`."""
        budget.spend(len(self.chars) + len(other.chars))
        right = other._moved(len(self.chars))
        after = [each | right.first if i in self.last else each for i, each in enumerate(self.after)]
        return _checked(
            self.chars + right.chars,
            (*after, *right.after),
            self.first | right.first if self.nullable else self.first,
            right.last | self.last if right.nullable else right.last,
            self.nullable and right.nullable,
        )

    def either(self, other: Automaton, budget: Budget) -> Automaton:
        """This one or `other`. Raises `TooLarge`."""
        budget.spend(len(self.chars) + len(other.chars))
        right = other._moved(len(self.chars))
        return _checked(
            self.chars + right.chars,
            self.after + right.after,
            self.first | right.first,
            self.last | right.last,
            self.nullable or right.nullable,
        )

    def repeated(self, least: int, most: int | None) -> Automaton:
        """Several times, or once; none too when `least` is 0."""
        after = self.after
        if most != 1:
            after = tuple(each | self.first if i in self.last else each for i, each in enumerate(after))
        return Automaton(self.chars, after, self.first, self.last, self.nullable or not least)

    def _moved(self, by: int) -> Automaton:
        def moved(positions: frozenset[int]) -> frozenset[int]:
            return frozenset(position + by for position in positions)

        return Automaton(self.chars, tuple(map(moved, self.after)), moved(self.first), moved(self.last), self.nullable)


def automaton_of(node: Node, rules: Mapping[str, Automaton], budget: Budget) -> Automaton:
    """Of a regular part, whose rules' are known. Raises `TooLarge`."""
    match node:
        case Chars(chars):
            return Automaton((chars,), (frozenset(),), frozenset((0,)), frozenset((0,)), False)
        case Name(rule):
            return rules[rule]
        case Seq(parts):
            whole = Automaton()
            for part in parts:
                whole = whole.then(automaton_of(part, rules, budget), budget)
            return whole
        case Alt(options):
            whole = automaton_of(options[0], rules, budget)
            for option in options[1:]:
                whole = whole.either(automaton_of(option, rules, budget), budget)
            return whole
        case Repeat(part, least, most):
            if most == 0:
                return Automaton()
            return automaton_of(part, rules, budget).repeated(least, most)


def outgrows(shorter: Automaton, longer: Automaton, follow: CharSet, budget: Budget) -> bool:
    """Whether a text of `shorter` and a character of `follow` after it can be the beginning of a text of `longer`.

    Raises `TooLarge` when `budget` is spent.
    """
    waiting = [(p, q) for p in shorter.first for q in longer.first if shorter.chars[p].meets(longer.chars[q])]
    seen = set(waiting)
    while waiting:
        p, q = waiting.pop()
        budget.spend(1 + len(shorter.after[p]) * len(longer.after[q]))
        if p in shorter.last and any(longer.chars[after].meets(follow) for after in longer.after[q]):
            return True
        for pair in ((a, b) for a in shorter.after[p] for b in longer.after[q]):
            if pair not in seen and shorter.chars[pair[0]].meets(longer.chars[pair[1]]):
                seen.add(pair)
                waiting.append(pair)
    return False


def _checked(
    chars: tuple[CharSet, ...],
    after: tuple[frozenset[int], ...],
    first: frozenset[int],
    last: frozenset[int],
    nullable: bool,
) -> Automaton:
    if len(chars) > MAX_POSITIONS:
        raise TooLarge
    return Automaton(chars, after, first, last, nullable)
