"""The request fields `/v1/chat/completions` and `/v1/completions` share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields
from golem_host.http.keep_alive import parse_keep_alive
from golem_host.http.streams import PING_SECONDS
from golem_host.registry import KeepAlive
from golem_host_chat.generation import Extras
from golem_host_chat.likelihoods import Probabilities
from golem_host_chat.routes.answer_grammar import answer_constraint
from golem_host_chat.routes.chat_prompt import NO_FRAMING, Framing
from golem_host_chat.routes.choices import Draw
from golem_host_chat.routes.constraint_fields import AskedConstraint, openai_constraint
from golem_host_chat.routes.context_limit import require_room
from golem_host_chat.routes.drawing_rules import sampling_of, takes_long
from golem_host_chat.routes.reading import PLAIN, Reading
from golem_host_chat.routes.stop_strings import stop_strings

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime

MAX_INT = 2**31 - 1


@dataclass(frozen=True)
class SharedFields:
    """Fields that need no model to be read. `max_tokens` None: as many as the operator or the slot allows."""

    model: str | None
    stream: bool
    include_usage: bool
    max_tokens: int | None
    copies: int
    stops: tuple[str, ...]
    reuse: bool
    ignore_eos: bool
    keep_alive: KeepAlive
    extras: Extras
    ping_seconds: float | None
    constraint: AskedConstraint | None
    takes_long: bool
    """Whether a draw may take long to prepare, however short the request."""


def shared_fields(fields: Fields, probs: Callable[[Fields], Probabilities | None]) -> SharedFields:
    """Read them; `probs` reads which probabilities are wanted. Raises `BadRequest` naming the field at fault."""
    options = Fields(fields.object("stream_options") or {}, "stream_options.")
    constraint = openai_constraint(fields)
    return SharedFields(
        model=fields.string("model"),
        stream=fields.boolean("stream", False),
        include_usage=options.boolean("include_usage", False),
        max_tokens=_max_tokens(fields),
        copies=_first_integer(fields, ("n_cmpl", "n"), minimum=1) or 1,
        stops=stop_strings(fields),
        reuse=fields.boolean("cache_prompt", True),
        ignore_eos=fields.boolean("ignore_eos", False),
        keep_alive=parse_keep_alive(fields.value("keep_alive")),
        extras=_extras(fields, probs(fields)),
        ping_seconds=_ping_seconds(fields),
        constraint=constraint,
        takes_long=constraint is not None or takes_long(fields),
    )


def draw_of(
    fields: Fields,
    shared: SharedFields,
    runtime: ChatRuntime,
    prompts: list[list[int]],
    reading: Reading = PLAIN,
    framing: Framing = NO_FRAMING,
) -> Draw:
    """What to draw on this model; `reading` and `framing` are those of a conversation.

    Raises `BadRequest` for what it cannot do, `ContextExceeded` for a long prompt.
    """
    if shared.copies > runtime.slots:
        raise BadRequest(
            f"n is {shared.copies}: model '{runtime.model.name}' draws at most {runtime.slots} answers at once, "
            "one in each slot (--parallel)",
            param="n",
        )
    slot = shared.extras.slot
    if slot is not None and slot >= runtime.slots:
        raise fields.fault("id_slot", f"there is no slot {slot}: model '{runtime.model.name}' has {runtime.slots}")
    if slot is not None and shared.copies > 1:
        raise fields.fault("id_slot", f"one slot draws one answer at a time, and n is {shared.copies}")
    for prompt in prompts:
        require_room(prompt, runtime.context)
    return Draw(
        prompts,
        sampling_of(fields, runtime, ignore_eos=shared.ignore_eos),
        copies=shared.copies,
        max_tokens=runtime.max_tokens if shared.max_tokens is None else shared.max_tokens,
        stops=shared.stops or runtime.stops,
        reuse=shared.reuse,
        reading=reading,
        extras=shared.extras,
        context=runtime.context if runtime.context < runtime.slot_context else None,
        constraint=answer_constraint(runtime, framing, reading, shared.constraint),
    )


def require_queue(prompts: int, shared: SharedFields, runtime: ChatRuntime) -> None:
    """More choices than the queue ever holds could not be answered on any retry: raise `BadRequest`."""
    choices = prompts * shared.copies
    if choices > runtime.lane.queue_limit:
        raise BadRequest(
            f"Field 'prompt': {prompts} prompts with n {shared.copies} make {choices} choices; "
            f"one request may have {runtime.lane.queue_limit} (--queue)",
            param="prompt",
        )


def _extras(fields: Fields, probs: Probabilities | None) -> Extras:
    slot = fields.integer("id_slot", -1, minimum=-1, maximum=MAX_INT)
    return Extras(
        probs=probs,
        slot=None if slot < 0 else slot,
        indent=fields.integer("n_indent", 0, minimum=0, maximum=MAX_INT),
        milliseconds=fields.integer("t_max_predict_ms", 0, minimum=-1, maximum=2**63 - 1),
        progress=fields.boolean("return_progress", False),
        timed=fields.boolean("timings_per_token", False),
    )


def _ping_seconds(fields: Fields) -> float | None:
    """After how long a silence a stream gets a comment; None: never."""
    seconds = fields.integer("sse_ping_interval", minimum=-1, maximum=MAX_INT)
    if seconds is None:
        return PING_SECONDS
    return float(seconds) if seconds > 0 else None


def _max_tokens(fields: Fields) -> int | None:
    # One field under three names, in llama-server's order; all of them must be right.
    value = _first_integer(fields, ("n_predict", "max_completion_tokens", "max_tokens"), minimum=-1)
    return None if value == -1 else value


def _first_integer(fields: Fields, names: tuple[str, ...], *, minimum: int) -> int | None:
    values = [fields.integer(name, minimum=minimum, maximum=MAX_INT) for name in names]
    return next((value for value in values if value is not None), None)
