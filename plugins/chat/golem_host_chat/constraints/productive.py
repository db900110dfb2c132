"""Parts of a grammar that derive no text, left out: an answer that began with one could never end."""

from __future__ import annotations

from collections.abc import Mapping, Set

from golem_host_chat.constraints.gbnf import Alt, Chars, GbnfError, Name, Node, Repeat, Seq


def without_dead_ends(grammar: Mapping[str, Node]) -> dict[str, Node]:
    """The rules that derive something, made of parts that do. Raises `GbnfError` when `root` derives nothing."""
    productive: set[str] = set()
    waiting = list(grammar)
    while True:
        # Backwards, then forwards: most grammars name a rule before or after all its uses.
        left = [rule for rule in reversed(waiting) if not _added(rule, grammar, productive)]
        if len(left) == len(waiting):
            break
        waiting = left
    if "root" not in productive:
        raise GbnfError("no text can fit it: 'root' never ends")
    return {rule: _pruned(grammar[rule], productive) for rule in grammar if rule in productive}


def _added(rule: str, grammar: Mapping[str, Node], productive: set[str]) -> bool:
    """Add a rule to `productive` if it derives something."""
    if not _derives(grammar[rule], productive):
        return False
    productive.add(rule)
    return True


def _derives(node: Node, productive: Set[str]) -> bool:
    match node:
        case Chars():
            return True
        case Name(rule):
            return rule in productive
        case Seq(parts):
            return all(_derives(part, productive) for part in parts)
        case Alt(options):
            return any(_derives(option, productive) for option in options)
        case Repeat(part, least, _):
            return not least or _derives(part, productive)


def _pruned(node: Node, productive: Set[str]) -> Node:
    """A part that derives something."""
    match node:
        case Chars() | Name():
            return node
        case Seq(parts):
            return Seq(tuple(_pruned(part, productive) for part in parts))
        case Alt(options):
            left = [_pruned(option, productive) for option in options if _derives(option, productive)]
            return left[0] if len(left) == 1 else Alt(tuple(left))
        case Repeat(part, least, most):
            return Repeat(_pruned(part, productive), least, most) if _derives(part, productive) else Seq(())
