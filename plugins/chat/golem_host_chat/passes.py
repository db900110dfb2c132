"""The forward passes of one loaded model: recorded once for each width, replayed for whatever columns there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from golem_host.ops import Cache, CacheType, Recording, State, arg_largest, block_maxima
from golem_host_chat.families import Batch, Family
from golem_host_chat.memory import SlotMemory
from golem_host_chat.scores import Scores


@dataclass
class Columns:
    """The columns of one pass: a token each, with its position and its slot; `outputs` are those whose logits are
    wanted.
    """

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def add(self, slot: int, first: int, tokens: Sequence[int], *, output: bool) -> None:
        """Tokens of one slot at positions from `first`; `output` asks for the logits of the last."""
        self.tokens += tokens
        self.positions += range(first, first + len(tokens))
        self.slots += [slot] * len(tokens)
        if output:
            self.outputs.append(len(self.tokens) - 1)

    def __len__(self) -> int:
        return len(self.tokens)


class Passes:
    """What is remembered (`memory`) in caches of type `kv_type` and states for `slots` conversations of `context`
    positions each, and the recordings over them.

    A pass has at most `widest` columns, which is the device's choice. `tokens` is how many the vocabulary holds, where
    the model may have outputs for more.

    `run` is called on the device thread only.
    """

    def __init__(
        self,
        family: Family,
        backend: Any,
        *,
        slots: int,
        context: int,
        tokens: int | None = None,
        kv_type: CacheType = CacheType.F16,
    ) -> None:
        self.vocab_size = family.vocab_size if tokens is None else min(tokens, family.vocab_size)
        self._family: Family | None = family
        self.slots = slots
        self.context = context
        self._backend = backend
        self.widest: int = backend.widest_pass
        self.memory = SlotMemory(family, backend, slots=slots, context=context, widest=self.widest, kv_type=kv_type)
        self._programs: dict[int, Any] = {}

    def prepare(self, progress: Callable[[float], None]) -> None:
        """Bring the weights into memory and compile the narrowest pass, so that the first answer waits for neither.
        What the widest needs of the device is known then. `progress` takes the share done.
        """
        self._backend.prepare(self._record(self.widest), progress)
        self.program(1)

    def run(self, columns: Columns) -> Scores:
        """The scores of the wanted columns, in their order."""
        width, wanted = len(columns.tokens), len(columns.outputs)
        program = self.program(width)
        inputs = program.inputs
        inputs["tokens"][:width] = columns.tokens
        inputs["positions"][:width] = columns.positions
        inputs["slots"][:width] = columns.slots
        inputs["outputs"][:wanted] = columns.outputs
        program.run({"columns": width, "outputs": wanted})
        logits = program.output("logits")[:, : self.vocab_size]
        return Scores(logits, program.output("maxima"), program.output("best")[:, 0].tolist())

    def close(self) -> None:
        """Let go of weights, caches, states and programs, whoever still holds this object."""
        self._family = None
        self.memory.clear()
        self._programs.clear()

    def program(self, width: int) -> Any:
        """What runs passes of up to `width` columns, compiled when it is first wanted."""
        if not 0 < width <= self.widest:
            raise ValueError(f"a pass of {width} columns; 1 to {self.widest} are possible")
        bucket = 1 << (width - 1).bit_length()
        if bucket not in self._programs:
            self._programs[bucket] = self._backend.compile(self._record(bucket))
        return self._programs[bucket]

    def _record(self, width: int) -> Recording:
        if self._family is None:
            raise RuntimeError("the passes of an unloaded model")
        recording = record(
            self._family,
            self.memory.caches,
            states=self.memory.states,
            width=width,
            outputs=min(width, self.slots),
        )
        logits = recording.outputs["logits"]
        maxima = block_maxima(logits, self.vocab_size)
        recording.output("maxima", maxima)
        recording.output("best", arg_largest(logits, maxima, self.vocab_size))
        return recording


def record(
    family: Family,
    caches: Sequence[Cache],
    *,
    states: Sequence[State] = (),
    width: int,
    outputs: int,
    keep_names: bool = False,
) -> Recording:
    """Record a family's pass for up to `width` columns and `outputs` rows of logits (output `logits`)."""
    recording = Recording(keep_names=keep_names)
    columns, wanted = recording.axis("columns", width), recording.axis("outputs", outputs)
    batch = Batch(
        tokens=recording.input("tokens", columns),
        positions=recording.input("positions", columns),
        slots=recording.input("slots", columns),
        outputs=recording.input("outputs", wanted),
        caches=caches,
        states=states,
    )
    recording.output("logits", family.forward(batch))
    return recording
