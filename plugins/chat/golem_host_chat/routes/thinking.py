"""Whether a template is asked to let the model think: `reasoning_effort`, `enable_thinking`, Ollama's `think`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields, kind_of

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime

MAX_BUDGET = 2**31 - 1
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max")
FORMATS = ("auto", "deepseek", "deepseek-legacy", "none")
LEVELS = ("low", "medium", "high", "max")


def openai_thinking(fields: Fields) -> tuple[bool | None, dict[str, Any]]:
    """The template's thinking switch (None: not asked) and its further variables, `chat_template_kwargs` included.

    An effort goes to the template as `reasoning_effort`; `none` turns thinking off, whatever the variables say
    (llama-server). `reasoning.effort` counts before `reasoning_effort`. Raises `BadRequest` for an unknown effort.
    """
    kwargs = fields.object("chat_template_kwargs") or {}
    nested = Fields(fields.object("reasoning") or {}, "reasoning.")
    effort = _effort(nested, "effort") or _effort(fields, "reasoning_effort")
    if effort is None:
        return None, kwargs
    if effort == "none":
        return False, {name: kwargs[name] for name in kwargs if name not in ("enable_thinking", "reasoning_effort")}
    return True, {**kwargs, "reasoning_effort": effort}


def ollama_thinking(fields: Fields) -> tuple[bool | None, dict[str, Any]]:
    """The same from `think`: true, false or a level. Raises `BadRequest` for anything else."""
    think = fields.value("think")
    if think is None or isinstance(think, bool):
        return think, {}
    if not isinstance(think, str):
        raise fields.fault("think", f"expected a boolean or one of {', '.join(LEVELS)}, got {kind_of(think)}")
    if think not in LEVELS:
        raise BadRequest(f"invalid think value: {think!r} (must be {', '.join(LEVELS)}, true or false)", param="think")
    return True, {"reasoning_effort": think}


def reasoning_format(fields: Fields) -> str:
    """Where reasoning goes: one of `FORMATS`. Raises `BadRequest` for another."""
    name = fields.string("reasoning_format", "auto")
    if name not in FORMATS:
        raise fields.fault("reasoning_format", f"expected one of {', '.join(FORMATS)}, got {name!r}")
    return name


def reasoning_budget(fields: Fields) -> int | None:
    """The most tokens of reasoning, from `reasoning_budget_tokens` or its other name; None: no limit."""
    names = ("reasoning_budget_tokens", "thinking_budget_tokens")
    values = [fields.integer(name, minimum=-1, maximum=MAX_BUDGET) for name in names]
    budget = next((value for value in values if value is not None), -1)
    return None if budget < 0 else budget


def require_thinking(runtime: ChatRuntime, thinking: bool | None, name: str) -> None:
    """Raise `BadRequest`, in Ollama's words, when model `name` is asked to think and has no such switch."""
    if thinking and (runtime.template is None or not runtime.template.supports_thinking):
        raise BadRequest(f'"{name}" does not support thinking', param="think")


def _effort(fields: Fields, name: str) -> str | None:
    effort = fields.string(name)
    if effort is not None and effort not in EFFORTS:
        raise fields.fault(name, f"expected one of {', '.join(EFFORTS)}, got {effort!r}")
    return effort
