"""A GBNF grammar as a grammar of lexemes, in llguidance's notation.

GBNF derives characters: a text fits when any derivation gives it. llguidance cuts a text into lexemes first, each as
long as can be, and never takes a cut back; so `root ::= [a-z]+ "b"` as two lexemes would fit nothing. A character is
always a lexeme, which is exact and slow (tens of milliseconds for a mask of 262,144 tokens; with strings as lexemes,
microseconds). So the largest regular parts are lexemes, except where one that is complete could be taken for the
beginning of another by a character that may follow it: those are split until none is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from golem_host_chat.constraints.automaton import Automaton, Budget, TooLarge, automaton_of, outgrows
from golem_host_chat.constraints.charset import EMPTY, CharSet
from golem_host_chat.constraints.gbnf import Alt, Chars, Name, Node, Repeat, Seq, read_gbnf
from golem_host_chat.constraints.linear import with_repetitions
from golem_host_chat.constraints.productive import without_dead_ends

STEPS = 100_000
"""What is spent on finding lexemes; a grammar that takes more is taken character by character."""
MAX_RULES_DEEP = 32
"""Rules within rules of one lexeme: the compiler calls itself for each, on any thread."""


def gbnf_rules(text: str) -> str:
    """The grammar's rules in llguidance's notation, `answer` for `root`. Raises `GbnfError`."""
    return _Structure(with_repetitions(without_dead_ends(read_gbnf(text)))).text()


@dataclass(eq=False)
class _Part:
    """A part of the grammar: a lexeme (`automaton` is there), or made of `children` as its node says."""

    node: Node
    automaton: Automaton | None = None
    children: list[_Part] = field(default_factory=list)
    first: CharSet = EMPTY
    follow: CharSet = EMPTY
    nullable: bool = False

    def within(self) -> Iterator[_Part]:
        yield self
        for child in self.children:
            yield from child.within()


class _Structure:
    """The rules that `root` needs, as parts; regular rules only where they are not part of a lexeme."""

    def __init__(self, grammar: Mapping[str, Node]) -> None:
        self._grammar = grammar
        self._budget = Budget(STEPS)
        self._automata: dict[str, Automaton] = {}
        """Of the regular rules, those too large left out."""
        depths: dict[str, int] = {}
        for rule in _regular_rules(grammar):
            depths[rule] = 1 + max((depths[name] for name in _names(grammar[rule])), default=0)
            automaton = self._automaton(grammar[rule]) if depths[rule] <= MAX_RULES_DEEP else None
            if automaton is not None:
                self._automata[rule] = automaton
        self._rules: dict[str, _Part] = {}
        self._make_rule("root")
        self._settle()

    def text(self) -> str:
        """One line for each rule: `r` those made of parts, `L` lexemes, `T` rules that lexemes are made of."""
        numbers = {rule: number for number, rule in enumerate(self._grammar)}
        parts = self._parts()
        lexemes: dict[Node, str] = {}
        for part in parts:
            if part.automaton is not None:
                lexemes.setdefault(part.node, f"L{len(lexemes)}")
        lines = [f"answer: r{numbers['root']}"]
        lines += [f"r{numbers[rule]}: {_rule_text(part, lexemes, numbers)}" for rule, part in self._rules.items()]
        lines += [f"{name}: {_lexeme_text(node, numbers)}" for node, name in lexemes.items()]
        needed = sorted(self._needed(lexemes))
        lines += [f"T{numbers[rule]}: {_lexeme_text(self._grammar[rule], numbers)}" for rule in needed]
        return "\n".join(lines) + "\n"

    def _parts(self) -> list[_Part]:
        return [part for rule in self._rules.values() for part in rule.within()]

    def _needed(self, lexemes: Mapping[Node, str]) -> set[str]:
        """The rules that lexemes are made of."""
        needed: set[str] = set()
        waiting = [rule for node in lexemes for rule in _names(node)]
        while waiting:
            rule = waiting.pop()
            if rule not in needed:
                needed.add(rule)
                waiting += _names(self._grammar[rule])
        return needed

    def _automaton(self, node: Node) -> Automaton | None:
        """Of a regular part that is not too large."""
        if any(rule not in self._automata for rule in _names(node)):
            return None
        try:
            return automaton_of(node, self._automata, self._budget)
        except TooLarge:
            return None

    def _make_rule(self, name: str) -> None:
        """Make the parts of a rule and of those it needs."""
        waiting = [name]
        while waiting:
            rule = waiting.pop()
            if rule not in self._rules:
                self._rules[rule] = self._part(self._grammar[rule])
                waiting += [
                    part.node.rule
                    for part in self._rules[rule].within()
                    if isinstance(part.node, Name) and part.automaton is None
                ]

    def _part(self, node: Node) -> _Part:
        automaton = self._automaton(node)
        if automaton is not None:
            return _Part(node, automaton)
        match node:
            case Seq(nodes):
                return _Part(node, children=self._runs(nodes))
            case Alt(nodes):
                return _Part(node, children=[self._part(option) for option in nodes])
            case Repeat(inner, _, _):
                return _Part(node, children=[self._part(inner)])
            case Name():
                return _Part(node)
            case Chars():
                return _Part(node, automaton_of(node, {}, Budget(1)))

    def _runs(self, nodes: Sequence[Node]) -> list[_Part]:
        """Regular neighbours as one lexeme, as far as they fit."""
        parts: list[_Part] = []
        run: list[Node] = []
        """The nodes of the last part, if it is a lexeme."""
        for node in nodes:
            part = self._part(node)
            together = self._together(parts[-1].automaton if run else None, part.automaton)
            if together is not None:
                run.append(node)
                parts[-1] = _Part(Seq(tuple(run)), together)
            else:
                run = [node] if part.automaton is not None else []
                parts.append(part)
        return parts

    def _together(self, first: Automaton | None, second: Automaton | None) -> Automaton | None:
        if first is None or second is None:
            return None
        try:
            return first.then(second, self._budget)
        except TooLarge:
            return None

    def _settle(self) -> None:
        """Split lexemes until none can be mistaken; all of them when that takes too long to find out."""
        while True:
            lexemes = [part for part in self._parts() if part.automaton is not None]
            try:
                self._find_follows()
                mistaken = _mistaken(lexemes, self._budget)
            except TooLarge:
                while lexemes:
                    lexemes += self._split(lexemes.pop())
                return
            if not mistaken:
                return
            for lexeme in mistaken:
                self._split(lexeme)

    def _split(self, lexeme: _Part) -> list[_Part]:
        """Make a lexeme of its parts, and return those; a character has none."""
        match lexeme.node:
            case Chars():
                return []
            case Seq(nodes) | Alt(nodes):
                parts = lexeme.children = [self._lexeme(node) for node in nodes]
            case Repeat(inner, _, _):
                parts = lexeme.children = [self._lexeme(inner)]
            case Name(rule) if rule in self._rules:
                parts = []
            case Name(rule):
                self._rules[rule] = self._lexeme(self._grammar[rule])
                parts = [self._rules[rule]]
        lexeme.automaton = None
        return parts

    def _lexeme(self, node: Node) -> _Part:
        """A part of one that was a lexeme."""
        return _Part(node, automaton_of(node, self._automata, Budget(STEPS)))

    def _find_follows(self) -> None:
        parts = self._parts()
        for part in parts:
            part.first, part.follow, part.nullable = EMPTY, EMPTY, False
        while any([self._find_first(part) for part in reversed(parts)]):
            self._budget.spend(4 * len(parts))
        while any([self._find_follow(part) for part in parts]):
            self._budget.spend(4 * len(parts))

    def _find_first(self, part: _Part) -> bool:
        """Update what a part may begin with; whether that changed."""
        before = part.first, part.nullable
        if part.automaton is not None:
            part.first, part.nullable = part.automaton.first_chars, part.automaton.nullable
            return before != (part.first, part.nullable)
        match part.node:
            case Name(rule):
                part.first, part.nullable = self._rules[rule].first, self._rules[rule].nullable
            case Seq():
                part.first, part.nullable = EMPTY, True
                for child in part.children:
                    part.first, part.nullable = part.first | child.first, child.nullable
                    if not child.nullable:
                        break
            case Alt():
                for child in part.children:
                    part.first, part.nullable = part.first | child.first, part.nullable or child.nullable
            case Repeat(_, least, most):
                part.first = EMPTY if most == 0 else part.children[0].first
                part.nullable = not least or part.children[0].nullable
            case Chars():
                pass
        return before != (part.first, part.nullable)

    def _find_follow(self, part: _Part) -> bool:
        """Update what may come after the parts of a part; whether that changed."""
        follows: list[tuple[_Part, CharSet]] = []
        match part.node:
            case Name(rule) if part.automaton is None:
                follows = [(self._rules[rule], part.follow)]
            case Seq():
                follow = part.follow
                for child in reversed(part.children):
                    follows.append((child, follow))
                    follow = child.first | follow if child.nullable else child.first
            case Alt():
                follows = [(child, part.follow) for child in part.children]
            case Repeat(_, _, most):
                follows = [(child, part.follow if most == 1 else part.follow | child.first) for child in part.children]
            case _:
                pass
        changed = False
        for child, follow in follows:
            before, child.follow = child.follow, child.follow | follow
            changed |= before != child.follow
        return changed


def _mistaken(lexemes: list[_Part], budget: Budget) -> list[_Part]:
    """Those a text can be taken for the beginning of, though a lexeme ended within it. Raises `TooLarge`."""
    follows: dict[Node, CharSet] = defaultdict(lambda: EMPTY)
    automata: dict[Node, Automaton] = {}
    for lexeme in lexemes:
        assert lexeme.automaton is not None
        budget.spend(1)
        follows[lexeme.node] |= lexeme.follow
        automata[lexeme.node] = lexeme.automaton
    mistaken: set[Node] = set()
    for longer in automata:
        for shorter, follow in follows.items():
            budget.spend(1)
            if not isinstance(longer, Chars) and outgrows(automata[shorter], automata[longer], follow, budget):
                mistaken.add(longer)
                break
    return [lexeme for lexeme in lexemes if lexeme.node in mistaken]


def _regular_rules(grammar: Mapping[str, Node]) -> list[str]:
    """The rules that do not need themselves, nor one that does; each after those it needs."""
    users: dict[str, list[str]] = defaultdict(list)
    missing: dict[str, int] = {}
    for rule, node in grammar.items():
        needed = set(_names(node))
        missing[rule] = len(needed)
        for name in needed:
            users[name].append(rule)
    regular = [rule for rule, count in missing.items() if not count]
    for rule in regular:
        for user in users[rule]:
            missing[user] -= 1
            if not missing[user]:
                regular.append(user)
    return regular


def _names(node: Node) -> Iterator[str]:
    match node:
        case Name(rule):
            yield rule
        case Seq(nodes) | Alt(nodes):
            for each in nodes:
                yield from _names(each)
        case Repeat(inner, _, _):
            yield from _names(inner)
        case Chars():
            pass


def _rule_text(part: _Part, lexemes: Mapping[Node, str], numbers: Mapping[str, int]) -> str:
    if part.automaton is not None:
        return lexemes[part.node]
    if isinstance(part.node, Name):
        return f"r{numbers[part.node.rule]}"
    return _combined(part.node, [_rule_text(child, lexemes, numbers) for child in part.children])


def _lexeme_text(node: Node, numbers: Mapping[str, int]) -> str:
    match node:
        case Chars(chars):
            return f"/{chars.expression()}/"
        case Name(rule):
            return f"T{numbers[rule]}"
        case Seq(nodes) | Alt(nodes):
            return _combined(node, [_lexeme_text(each, numbers) for each in nodes])
        case Repeat(inner, _, _):
            return _combined(node, [_lexeme_text(inner, numbers)])


def _combined(node: Node, texts: list[str]) -> str:
    if isinstance(node, Alt):
        return f"({' | '.join(texts)})"
    if isinstance(node, Repeat):
        most = "" if node.most is None else node.most
        return '""' if node.most == 0 else f"({texts[0]}){{{node.least},{most}}}"
    return f"({' '.join(texts)})" if texts else '""'
