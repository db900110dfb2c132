"""The Jinja environment chat templates run in: what transformers' `apply_chat_template` offers, on a budget.

Reproduced: immutable sandbox, `trim_blocks` and `lstrip_blocks`, `break`/`continue`, `{% generation %}`,
`raise_exception`, `strftime_now`, and a `tojson` that writes plain JSON (Jinja's own escapes HTML and sorts keys).
Left out on purpose: `lipsum`, the `random` filter (one conversation, one prompt) and the HTML filters whose size
nothing bounds.

How the budget is kept. Before compiling, the template's syntax tree is rewritten so that every loop round, macro
body, `~`, list or dict display and slice passes through the :class:`~golem_host_chat.template_meter.Meter`; calls,
arithmetic, filters and printed values pass through hooks Jinja has for them. Operations whose result is larger than
what goes in (`*`, `replace`, `center`, ...) are charged before they run, all others after. Nothing is folded at
compile time: filters and printing take the rendering's context, and arithmetic is intercepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, cast

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.filters import do_join
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from golem_host_chat.template_charges import BEFORE_FILTER, before_method, before_power, before_printf, before_product
from golem_host_chat.template_meter import Meter

METER = " meter"
"""The rendering's meter among its variables; no template can name a variable with a space in it."""

MAX_MESSAGE = 2000

_STRING_METHODS = re.compile(
    r"[lr]?strip|r?split|splitlines|r?partition|startswith|endswith|removeprefix|removesuffix|replace|join|r?find|r?index|count"
    r"|upper|lower|title|capitalize|casefold|swapcase|is[a-z]+|format|center|[lr]just|zfill"
)
_LEFT_OUT = ("pprint", "random", "urlize", "wordwrap", "xmlattr")


class TemplateRaised(TemplateRuntimeError):
    """`raise_exception(message)`: the template itself refuses the conversation."""


class _Metered:
    """A function the rewritten template calls with the meter in front."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


class _GenerationExtension(Extension):
    """`{% generation %}...{% endgeneration %}` marks assistant text for training; its body is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012  (Jinja reads it from the class)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class _TemplateNamespace(Namespace):
    """`namespace(...)` that prints as its name only: it can hold itself, and its contents are not weighed."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise SecurityError(f"a template may not set {name!r} on a namespace")
        super().__setitem__(name, value)

    def __repr__(self) -> str:
        return "<Namespace>"


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """One environment serves any number of templates and threads; see the module for what it bounds."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_GenerationExtension, LoopControlExtension],
            finalize=_finalize,
        )
        self.metered_tick = _Metered(Meter.tick)
        self.metered_concat = _Metered(_concat)
        self.metered_admit = _Metered(Meter.admit)
        self.metered_slice = _Metered(_admit_slice)
        filters = {name: function for name, function in self.filters.items() if name not in _LEFT_OUT}
        self.filters = {name: _metered_filter(name, function) for name, function in filters.items()}
        self.filters["tojson"] = _tojson
        self.filters["join"] = _join
        del self.globals["lipsum"]
        # `dict` itself would hand the template a class.
        self.globals["dict"] = lambda *args, **kwargs: dict(*args, **kwargs)
        self.globals["namespace"] = _TemplateNamespace
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now

    def compile_metered(self, source: str) -> Any:
        """The compiled template of `source`. Raises whatever Jinja and Python raise for source they cannot compile."""
        tree = self.parse(source)
        return self.from_string(_MeterTree(self).visit(tree))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return _STRING_METHODS.fullmatch(attr) is not None
        if isinstance(obj, int | float | bytes):
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        meter: Meter = context[METER]
        if isinstance(function, _Metered):
            return function.function(meter, *args)
        meter.tick()
        method = getattr(function, "__wrapped__", function)  # `str.format` comes wrapped by the sandbox
        target = getattr(method, "__self__", None)
        if isinstance(target, str):
            args = before_method(meter, target, method.__name__, args, kwargs)
        return meter.admit(super().call(context, function, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        meter: Meter = context[METER]
        if operator == "*":
            before_product(meter, left, right)
        elif operator == "%" and isinstance(left, str):
            before_printf(meter, left, right)
        elif operator == "**":
            before_power(left, right)
        return meter.admit(super().call_binop(context, operator, left, right))


_CONSTANT_PARTS = (nodes.Const, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair)


class _MeterTree(NodeTransformer):
    """Rewrites a template's syntax tree so that what amplifies passes through the meter."""

    def __init__(self, environment: TemplateSandbox) -> None:
        self._environment = environment

    def _call(self, name: str, line: int, *args: nodes.Expr) -> nodes.Call:
        call = nodes.Call(nodes.EnvironmentAttribute(name), list(args), [], None, None, lineno=line)
        call.set_environment(self._environment)
        return call

    def _tick_body(self, node: Any) -> Any:
        """A step at the start of the body, charged with the constant text the body can print."""
        node = self.generic_visit(node)
        text = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        text += sum(len(const.value) for const in node.find_all(nodes.Const) if isinstance(const.value, str))
        tick = self._call("metered_tick", node.lineno, nodes.Const(text))
        node.body.insert(0, nodes.ExprStmt(tick, lineno=node.lineno).set_environment(self._environment))
        return node

    visit_Macro = visit_CallBlock = visit_Block = _tick_body

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self._tick_body(node)
        if node.test is not None:  # rounds the loop's filter leaves out; a tick is None, so the test decides
            node.test = nodes.Or(self._call("metered_tick", node.lineno), node.test, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._call("metered_concat", node.lineno, *node.nodes)

    def _display(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        constant = all(isinstance(part, _CONSTANT_PARTS) for part in node.find_all(nodes.Node))
        if constant or getattr(node, "ctx", "load") != "load":
            return node
        return self._call("metered_admit", node.lineno, node)

    visit_List = visit_Tuple = visit_Dict = _display

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return self._call("metered_slice", node.lineno, node) if isinstance(node.arg, nodes.Slice) else node


@pass_context
def _finalize(context: Context, value: Any) -> Any:
    """Every printed value."""
    return context[METER].admit(value)


def _concat(meter: Meter, *values: Any) -> str:
    texts = [str(value) for value in values]
    meter.tick(sum(map(len, texts)))
    return "".join(texts)


def _admit_slice(meter: Meter, value: Any) -> Any:
    """A slice holds what its source held: its own length is all it adds."""
    if isinstance(value, str | list | tuple):
        meter.tick(len(value))
    return value


def _raise_exception(message: Any) -> None:
    raise TemplateRaised(str(message)[:MAX_MESSAGE])


def _strftime_now(form: str) -> str:
    """The local time, as transformers and llama.cpp write it."""
    if len(form) > 256:
        raise TemplateRuntimeError("strftime_now: the format is longer than 256 characters")
    return datetime.now().strftime(form)


@pass_context
def _tojson(
    context: Context,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """transformers' `tojson`: plain JSON, keys in their order, nothing escaped for HTML."""
    meter: Meter = context[METER]
    if separators is not None and sum(map(len, separators)) > 16:
        raise TemplateRuntimeError("tojson: the separators are longer than 16 characters")
    if isinstance(value, Iterator):  # what filters such as `map` give
        value = list(value)
        meter.tick(len(value))
    encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    if indent is None:
        text = encoder.encode(value)
        meter.tick(len(text))
        return text
    if (len(indent) if isinstance(indent, str) else indent) > 16:
        raise TemplateRuntimeError("tojson: the indent is wider than 16 characters")
    pieces = []
    for piece in encoder.iterencode(value):
        meter.tick(len(piece))
        pieces.append(piece)
    return "".join(pieces)


@pass_context
def _join(context: Context, value: Any, d: str = "", attribute: int | str | None = None) -> str:
    """Jinja's `join`; the parts are collected first, to be weighed."""
    meter: Meter = context[METER]
    parts = list(value)
    meter.tick(len(parts) * len(str(d)) + meter.weigh(parts))
    return cast(str, do_join(context.eval_ctx, parts, d, attribute))


def _metered_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` on the meter; it takes the context so that Jinja cannot run it while compiling."""
    wants = getattr(function, "jinja_pass_arg", None)
    first = wants.name if wants is not None else None
    before = BEFORE_FILTER.get(name)

    @pass_context
    def metered(context: Context, *args: Any, **kwargs: Any) -> Any:
        meter: Meter = context[METER]
        meter.tick()
        if before is not None:
            before(meter, *args, **kwargs)
        if first == "context":
            result = function(context, *args, **kwargs)
        elif first == "eval_context":
            result = function(context.eval_ctx, *args, **kwargs)
        elif first == "environment":
            result = function(context.environment, *args, **kwargs)
        else:
            result = function(*args, **kwargs)
        # A value handed through (`default`, `first`) was accounted for when it was made.
        return result if args and result is args[0] else meter.admit(result)

    return metered
