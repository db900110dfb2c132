"""Rules that need themselves at one end only, as repetitions: those are regular, and can be lexemes.

The least language of `A = X A | Y` is `X* Y`, that of `A = A X | Y` is `Y X*` (Arden), also where `X` may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from golem_host_chat.constraints.gbnf import Alt, Chars, Name, Node, Repeat, Seq

_Parts = tuple[Node, ...]


def with_repetitions(grammar: Mapping[str, Node]) -> dict[str, Node]:
    """The same rules, deriving the same texts; such as `ws ::= ([ \\t] ws)?` without themselves."""
    return {rule: _repeated(rule, node) for rule, node in grammar.items()}


def _repeated(rule: str, node: Node) -> Node:
    if not _needs(node, rule):
        return node
    for last in (True, False):
        options = list(_options(node, rule, last))
        ends = [parts for parts in options if not any(_needs(part, rule) for part in parts)]
        further = [_without(parts, last) for parts in options if parts and _end(parts, last) == Name(rule)]
        if len(ends) + len(further) == len(options) and not any(
            _needs(part, rule) for parts in further for part in parts
        ):
            more, end = Repeat(_any(further), 0, None), _any(ends)
            return Seq((more, end) if last else (end, more))
    return node


def _options(node: Node, rule: str, last: bool) -> Iterator[_Parts]:
    """The sequences that a node is one of, groups at the `last` (else first) place opened while `rule` is in them."""
    match node:
        case Alt(options):
            for option in options:
                yield from _options(option, rule, last)
        case Repeat(part, 0, 1) if _needs(part, rule):
            yield ()
            yield from _options(part, rule, last)
        case Seq(parts) if parts and _needs(_end(parts, last), rule):
            rest = _without(parts, last)
            for inner in _options(_end(parts, last), rule, last):
                yield (*rest, *inner) if last else (*inner, *rest)
        case Seq(parts):
            yield parts
        case _:
            yield (node,)


def _end(parts: _Parts, last: bool) -> Node:
    return parts[-1] if last else parts[0]


def _without(parts: _Parts, last: bool) -> _Parts:
    return parts[:-1] if last else parts[1:]


def _any(options: list[_Parts]) -> Node:
    made = [parts[0] if len(parts) == 1 else Seq(parts) for parts in options]
    return made[0] if len(made) == 1 else Alt(tuple(made))


def _needs(node: Node, rule: str) -> bool:
    match node:
        case Name(name):
            return name == rule
        case Seq(parts) | Alt(parts):
            return any(_needs(part, rule) for part in parts)
        case Repeat(part, _, _):
            return _needs(part, rule)
        case Chars():
            return False
