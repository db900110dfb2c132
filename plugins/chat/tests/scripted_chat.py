"""A chat model that says what a script tells it: real tokenizer, template and lane, no mathematics."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import httpx

from golem_host.devices.device import Device
from golem_host.host import Host
from golem_host.lanes.job import Job
from golem_host.lanes.stepwise import StepwiseLane
from golem_host.registry import Model
from golem_host.testing.fakes import FakePlugin, plugin_set
from golem_host.testing.inprocess import running, settings_of
from golem_host.testing.tiny import tiny_gguf
from golem_host.text.tokenizer import tokenizer_from_gguf
from golem_host.weights.gguf import open_gguf
from golem_host_chat import plugin
from golem_host_chat.answer_text import AnswerText
from golem_host_chat.constraints.vocabulary import ConstraintVocabulary
from golem_host_chat.generation import Completion, Generation, Progress, Timings
from golem_host_chat.likelihoods import Likelihood
from golem_host_chat.model import ChatModel
from golem_host_chat.routes import ROUTES
from golem_host_chat.sampling_dry import RestartFinder
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.templates import ChatTemplate


@dataclass(frozen=True)
class Script:
    """What the model draws: `pieces`, the bytes of one token each, then its end token.

    `endless` repeats the last piece for ever; `error` is raised for this answer alone in place of the end token.
    """

    pieces: tuple[bytes, ...] = (b"Hello", b" there", b".")
    endless: bool = False
    error: Exception | None = None


@dataclass
class _Seat:
    """One answer being drawn; `unread` until its first pass."""

    job: Job[Generation]
    slot: int
    script: Script
    answer: AnswerText
    unread: bool = True


class ScriptedStepper:
    """Draws one piece a pass for each of `slots` seats. `scripts` are chosen by a word their prompt contains."""

    def __init__(self, model: ScriptedModel, runtime: ScriptedRuntime) -> None:
        self._model = model
        self._runtime = runtime
        self.seats: list[_Seat] = []

    def admit(self, job: Job[Generation]) -> bool | None:
        taken = {seat.slot for seat in self.seats}
        only = job.request.extras.slot
        free = [slot for slot in range(self._model.slots) if slot not in taken and only in (None, slot)]
        if not free and only is not None:
            return None
        if not free or any(seat.unread and seat.job.id == job.request.follows for seat in self.seats):
            return False
        self._model.asked.append(job.request)
        room = self._model.context - len(job.request.prompt)
        limit = room if job.request.max_tokens is None else min(room, job.request.max_tokens)
        self.seats.append(_Seat(job, free[0], self._script(job.request), AnswerText(job.request, limit)))
        self._report(self.seats[-1], 0)
        return True

    def step(self) -> None:
        time.sleep(self._model.pass_seconds)
        self._model.before_pass()
        self._model.carried.append(len(self.seats))
        for seat in list(self.seats):
            if seat.unread:
                seat.unread = False
                self._report(seat, len(seat.job.request.prompt))
                if seat.job.request.max_tokens == 0:
                    self._end(seat, "length")
            else:
                self._draw(seat)

    def release(self, job: Job[Generation]) -> None:
        self.seats = [seat for seat in self.seats if seat.job is not job]

    def recover(self) -> None:
        self.seats.clear()

    def _script(self, request: Generation) -> Script:
        text = self._runtime.tokenizer.decode(request.prompt, special=True).decode("utf-8", "replace")
        return next((script for word, script in self._model.scripts.items() if word in text), Script())

    def _draw(self, seat: _Seat) -> None:
        pieces, answer, extras = seat.script.pieces, seat.answer, seat.job.request.extras
        over = len(answer.drawn) >= len(pieces)
        if over and not seat.script.endless and seat.script.error is not None:
            seat.job.fail(seat.script.error)
            self.release(seat.job)
            return
        piece = None if over and not seat.script.endless else pieces[-1] if over else pieces[len(answer.drawn)]
        likelihood = None
        if extras.probs is not None:
            value = 0.5 ** len(answer.drawn)
            likelihood = Likelihood(value, tuple((id, value / 2) for id in range(extras.probs.top)))
        delta = answer.push(0, piece, likelihood, milliseconds=4.0)
        if delta is not None:
            seat.job.emit(replace(delta, timings=_timings(seat) if extras.timed else None, slot=seat.slot))
        if answer.finish is not None:
            self._end(seat, answer.finish)

    def _report(self, seat: _Seat, read: int) -> None:
        if seat.job.request.extras.progress:
            seat.job.emit(Progress(len(seat.job.request.prompt), 0, read, 1.0, seat.slot))

    def _end(self, seat: _Seat, finish: str) -> None:
        answer = seat.answer
        timings = _timings(seat)
        seat.job.finish(
            Completion(
                text=answer.text,
                finish=finish,
                stop_word=answer.stop_word,
                prompt_tokens=timings.prompt_n + timings.cache_n,
                cached_tokens=timings.cache_n,
                completion_tokens=len(answer.drawn),
                slot=seat.slot,
                tokens=[0] * len(answer.drawn),
                timings=timings,
                probabilities=tuple(answer.told),
            )
        )
        self.release(seat.job)


def _timings(seat: _Seat) -> Timings:
    prompt = len(seat.job.request.prompt)
    cached = prompt - 1 if seat.job.request.follows is not None else 0
    return Timings(
        waited_ms=0.25,
        prompt_n=prompt - cached,
        prompt_ms=2.0,
        cache_n=cached,
        predicted_n=len(seat.answer.drawn),
        predicted_ms=4.0,
    )


class ScriptedRuntime:
    """What the routes see of a loaded model."""

    stops: tuple[str, ...] = ()

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model
        self.context = model.context
        self.slots = model.slots
        self.max_tokens = model.max_tokens
        self.sampling = SamplingParams()
        with open_gguf(model.path) as gguf:
            self.tokenizer = tokenizer_from_gguf(gguf)
            source = gguf.string("tokenizer.chat_template", None)
        self.restarts = RestartFinder(self.tokenizer)
        self.constraints = ConstraintVocabulary(self.tokenizer)
        vocab = self.tokenizer.vocab
        bos = "" if vocab.bos is None else vocab.text(vocab.bos)
        eos = "" if vocab.eos is None else vocab.text(vocab.eos)
        self.template = None if source is None else ChatTemplate(source, bos, eos, name=model.name)
        self.template_fault = f"the file of model '{model.name}' has no chat template"
        self.stepper = ScriptedStepper(model, self)
        self.lane = StepwiseLane(model.name, self.stepper, kind="chat", queue_limit=model.queue_limit)

    @property
    def slot_context(self) -> int:
        return self.context

    def with_opening(self, messages: Any, *, continues: bool = False) -> Any:
        return messages

    def close(self) -> None:
        """Nothing is held."""


class ScriptedModel(Model):
    """A chat model with tokenizer and template of the GGUF file at `path`; `asked` collects what its lane was asked,
    `carried` how many answers each pass drew.

    `before_pass` is called on the device thread before each pass.
    """

    kind = "chat"
    plugin = "chat"
    family = architecture = "scripted"
    capabilities = ("completion",)
    quantization = "F32"
    parameter_count = 1_000_000
    modified = 1_700_000_000.0

    def __init__(
        self,
        path: Path,
        *,
        name: str = "scripted",
        scripts: Mapping[str, Script] | None = None,
        slots: int = 4,
        context: int = 256,
        max_tokens: int | None = None,
        queue_limit: int = 512,
        pass_seconds: float = 0.0,
    ) -> None:
        self.path = path
        self.name = name
        self.size_bytes = path.stat().st_size
        self.context_length = context
        self.scripts = dict(scripts or {})
        self.slots = slots
        self.context = context
        self.max_tokens = max_tokens
        self.queue_limit = queue_limit
        self.pass_seconds = pass_seconds
        self.before_pass: Callable[[], None] = lambda: None
        self.asked: list[Generation] = []
        self.carried: list[int] = []
        self.loads = 0

    prepare_layer = ChatModel.prepare_layer
    layer_capabilities = ChatModel.layer_capabilities
    layered = ChatModel.layered

    def load(self, device: Device, settings: Mapping[str, Any], progress: Callable[[float], None]) -> ScriptedRuntime:
        self.loads += 1
        return ScriptedRuntime(self)


@dataclass(frozen=True)
class Served:
    """A host in this event loop with one scripted model, and a client of it."""

    host: Host
    client: httpx.AsyncClient
    model: ScriptedModel

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.client.post(path, json=body)

    def text(self, request: Generation) -> str:
        """The prompt a request came with, as text."""
        return self.decoded(request.prompt)

    def decoded(self, tokens: Iterable[int]) -> str:
        runtime = cast("ScriptedRuntime", self.host.registry.loaded(self.model))
        return runtime.tokenizer.decode(tokens, special=True).decode()


@asynccontextmanager
async def serving(
    folder: Path,
    *,
    architecture: str = "llama",
    metadata: Mapping[str, Any] | None = None,
    settings: Mapping[str, str] | None = None,
    **model: Any,
) -> AsyncIterator[Served]:
    """Serve a `ScriptedModel` made with `model`, over a tiny file of `architecture` with changed `metadata`."""
    path = tiny_gguf(folder / "tiny.gguf", architecture, metadata=metadata)
    scripted = ScriptedModel(path, **model)
    plugins = plugin_set(chat=FakePlugin([scripted], ROUTES))
    async with running(settings_of(folder, settings, plugin.golem_settings()), plugins) as (host, client):
        yield Served(host, client, scripted)


def sse_events(body: str) -> list[Any]:
    """The events of a body of server-sent events, parsed; the end marker stays text. AssertionError for bad framing."""
    assert body.endswith("\n\n")
    events = []
    for event in body[:-2].split("\n\n"):
        assert event.startswith("data: ") and "\n" not in event, event
        data = event.removeprefix("data: ")
        events.append(data if data == "[DONE]" else json.loads(data))
    return events


def json_lines(body: str) -> list[Any]:
    """The objects of a body of JSON lines. AssertionError for an empty line or a missing last newline."""
    assert body.endswith("\n")
    return [json.loads(line) for line in body[:-1].split("\n")]
