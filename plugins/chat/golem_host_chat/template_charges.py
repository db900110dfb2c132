"""Template operations whose result can be far larger than what goes in: charged to the meter before they run.

Filters by name in `BEFORE_FILTER`, string methods in `before_method`, operators in the functions after it. All raise
`TemplateRuntimeError` when the rendering cannot afford the result.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from typing import Any

from jinja2.exceptions import TemplateRuntimeError

from golem_host_chat.template_meter import NODE_SIZE, Meter

MAX_INTEGER_BITS = 4096


def _before_center(meter: Meter, value: Any, width: int = 80) -> None:
    meter.charge(width)


def _before_indent(meter: Meter, s: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> None:
    meter.charge((len(width) if isinstance(width, str) else width) * (1 + len(str(s).splitlines())))


def _before_replace(meter: Meter, s: Any, old: Any, new: Any, count: int | None = None) -> None:
    meter.charge(str(s).count(str(old)) * len(str(new)))


def _before_batch(meter: Meter, value: Any, linecount: int, fill_with: Any = None) -> None:
    meter.charge(NODE_SIZE * linecount)


def _before_slice(meter: Meter, value: Any, slices: int, fill_with: Any = None) -> None:
    meter.charge(NODE_SIZE * slices)


def _before_sum(meter: Meter, iterable: Any, attribute: Any = None, start: Any = 0) -> None:
    if not isinstance(start, int | float):
        raise TemplateRuntimeError("sum: only numbers can be added up")


def _before_format(meter: Meter, value: Any, *args: Any, **kwargs: Any) -> None:
    before_printf(meter, str(value), kwargs or args)


BEFORE_FILTER: Mapping[str, Callable[..., None]] = {
    "batch": _before_batch,
    "center": _before_center,
    "format": _before_format,
    "indent": _before_indent,
    "replace": _before_replace,
    "slice": _before_slice,
    "sum": _before_sum,
}


def before_method(
    meter: Meter, text: str, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Charge a string method whose result can be longer than its inputs; hands back the arguments to call it with."""
    if name in ("center", "ljust", "rjust", "zfill") and args and isinstance(args[0], int):
        meter.charge(args[0])
    elif name == "replace" and len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
        meter.charge(text.count(args[0]) * len(args[1]))
    elif name == "join" and args:
        parts = list(args[0])
        meter.charge(len(parts) * len(text) + meter.weigh(parts))
        return (parts, *args[1:])
    elif name in ("format", "format_map"):
        fields = 0
        for _, field, form, _ in string.Formatter().parse(text):
            fields += field is not None
            if form and ("{" in form or re.search(r"\d{4}", form)):
                raise TemplateRuntimeError("format: widths are limited to three digits")
        meter.charge(fields * (1000 + meter.weigh((args, dict(kwargs)))))
    return args


def before_printf(meter: Meter, form: str, values: Any) -> None:
    if re.search(r"%(?:\([^)]*\))?[-+ #0]*(?:\d*\.)?(?:\*|\d{4})", form):
        raise TemplateRuntimeError("%: widths are limited to three digits")
    meter.charge(form.count("%") * (1000 + meter.weigh(values)))


def before_product(meter: Meter, left: Any, right: Any) -> None:
    for sequence, times in ((left, right), (right, left)):
        if isinstance(times, int) and isinstance(sequence, str):
            meter.charge(max(times, 0) * len(sequence))
        elif isinstance(times, int) and isinstance(sequence, list | tuple):
            meter.charge(max(times, 0) * len(sequence) * NODE_SIZE)
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_INTEGER_BITS:
        raise TemplateRuntimeError("the template computes a number that is too large")


def before_power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MAX_INTEGER_BITS:
        raise TemplateRuntimeError("the template computes a number that is too large")
