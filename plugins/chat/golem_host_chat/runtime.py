"""A loaded chat model: its lane, tokenizer, template and sampling defaults."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golem_host.api import ModelFileError, StepwiseLane, Unavailable
from golem_host.devices.device import Device
from golem_host.devices.names import backend_maker
from golem_host.devices.split import SplitBackend
from golem_host.host import host_version
from golem_host.ops import CacheType, Recording
from golem_host.text.tokenizer import Tokenizer, tokenizer_from_gguf
from golem_host.weights.gguf import Gguf, open_gguf
from golem_host_chat.constraints.vocabulary import ConstraintVocabulary
from golem_host_chat.families import family_of
from golem_host_chat.layers import first_command, layer_count, weights, whole_cut
from golem_host_chat.passes import Passes
from golem_host_chat.sampling_dry import RestartFinder
from golem_host_chat.sampling_params import SamplingParams, defaults_from_metadata
from golem_host_chat.slot_report import SlotReport
from golem_host_chat.stepper import ChatStepper
from golem_host_chat.templates import ChatTemplate, TemplateError

if TYPE_CHECKING:
    from golem_host_chat.model import ChatModel

log = logging.getLogger("golem_host.chat")


class ChatRuntime:
    """What routes need of a loaded model. `context` is the positions of one slot, `max_tokens` the most of an answer
    when the request names none. `derived.DerivedRuntime` shows one as a derived model.
    """

    stops: tuple[str, ...] = ()
    """Stop strings of requests that name none."""

    def __init__(
        self,
        model: ChatModel,
        device: Device,
        settings: Mapping[str, Any],
        *,
        context: int,
        kv_type: CacheType,
        checkpoints: int,
        progress: Callable[[float], None],
    ) -> None:
        self.model = model
        self.context = context
        self.slots: int = settings["parallel"]
        self.max_tokens: int | None = settings["max-tokens"]
        self._gguf = open_gguf(model.path)
        self.tokenizer, self.sampling = text_rules(self._gguf)
        self.restarts = RestartFinder(self.tokenizer)
        self.constraints = ConstraintVocabulary(self.tokenizer)
        self.template: ChatTemplate | None = None
        self.template_fault = f"the file of model '{model.name}' has no chat template"
        """Why there is no template; chat is refused with it, completion still works."""
        try:
            self.template = template_of(self._gguf, self.tokenizer, model.name)
        except TemplateError as error:
            self.template_fault = error.message
            log.warning("%s; chat is refused, completion works", error.message)
        self._files = _stamps(self._gguf)
        self._device = device
        self._layers: int | None = settings["vulkan-layers"]
        backend = self._backend(device, settings)
        self._arithmetic: str = backend.arithmetic
        self.passes = Passes(
            family_of(self._gguf, model.families),
            backend,
            slots=self.slots,
            context=context,
            tokens=len(self.tokenizer.vocab),
            kv_type=kv_type,
        )
        self.passes.prepare(progress)
        self._stepper = ChatStepper(
            self.passes,
            self.tokenizer,
            cache_ttl=settings["cache-ttl"],
            checkpoints=checkpoints,
            cache_bytes=_cache_bytes(settings),
            counts=model.counts,
        )
        self.lane = StepwiseLane(
            model.name, self._stepper, kind="chat", queue_limit=settings["queue"], seats=self.slots
        )
        lane = weakref.proxy(self.lane)  # in a ring of references an unloaded model would keep its memory
        self._stepper.pass_seconds = lambda: lane.pass_seconds

    def _backend(self, device: Device, settings: Mapping[str, Any]) -> Any:
        """The device's, or one that leaves all but the last layers to the CPU."""
        there: int | None = settings["vulkan-layers"]
        if there is None or there >= layer_count(self._gguf.tensors):
            return device.backend
        # Of this file, not of this runtime: in a ring of references an unloaded model would keep its memory.
        cut_at = partial(_cut_at, self.model.path, there)
        return SplitBackend(backend_maker("cpu", settings)(), device.backend, cut_at)

    @property
    def slot_context(self) -> int:
        """Positions of a slot, whatever a derived model says."""
        return self.context

    def with_opening(self, messages: Any, *, continues: bool = False) -> Any:
        """`messages` after what a derived model begins every conversation with; here, as they are."""
        return messages

    def slot_reports(self) -> Future[list[SlotReport]]:
        """What each slot does, told between two passes."""
        return self._device.submit(self._stepper.reports)

    def slot_identity(self) -> dict[str, Any]:
        """What two hosts have in common, beside the model's files, when what one computed goes on in the other with the
        same bits.
        """
        return {
            "version of golem-host": host_version(),
            "arithmetic": self._arithmetic,
            "number of layers on the Vulkan device": self._layers,
            "context": self.context,
            "shape of caches": self.passes.memory.shape(),
        }

    @property
    def files(self) -> tuple[Path, ...]:
        """The model's files. Raises `Unavailable` when they are no longer those that were loaded."""
        try:
            if _stamps(self._gguf) == self._files:
                return self._gguf.paths
        except OSError:
            pass
        raise Unavailable(f"the file of model '{self.model.name}' has changed since it was loaded")

    def close(self) -> None:
        """Give weights and caches back. The lane stays, closed, for a request that was about to submit to it."""
        self._stepper.clear()
        self.passes.close()
        self._gguf.close()


def _cache_bytes(settings: Mapping[str, Any]) -> int | None:
    """This model's share of the memory for conversations without a slot; None: as much as there is."""
    most: int = settings["cache-ram"]
    return None if most < 0 else (most << 20) // max(1, len(settings["chat-model"]))


def _cut_at(path: Path, there: int, recording: Recording) -> int:
    """The first command of the last `there` layers. Raises `ModelFileError` when the others share keys and values with
    them.
    """
    # Of the layers that are computed: a file may hold more.
    layers = layer_count(each.name for each in weights(recording))
    layer = max(0, layers - there)
    possible = whole_cut(recording, layer)
    if possible != layer:
        raise ModelFileError(
            path,
            f"--vulkan-layers {there}: the last {layers - possible} layers share keys and values, which are on one "
            f"device; give {layers - possible} or more, or 0",
        )
    return first_command(recording, layer)


def _stamps(gguf: Gguf) -> list[tuple[int, int, int]]:
    stats = [path.stat() for path in gguf.paths]
    return [(each.st_ino, each.st_size, each.st_mtime_ns) for each in stats]


def text_rules(gguf: Gguf) -> tuple[Tokenizer, SamplingParams]:
    """The file's tokenizer and sampling defaults. Raises `ModelFileError` for those that cannot be honoured."""
    tokenizer = tokenizer_from_gguf(gguf)
    try:
        return tokenizer, defaults_from_metadata(gguf.metadata)
    except ValueError as error:
        raise ModelFileError(gguf.path, str(error)) from error


def template_of(gguf: Gguf, tokenizer: Tokenizer, name: str) -> ChatTemplate | None:
    """The file's own chat template, or None when it has none. Raises `TemplateError` for one that does not compile."""
    source = gguf.string("tokenizer.chat_template", None)
    if source is None:
        return None
    vocab = tokenizer.vocab

    def text(token: int | None) -> str:
        return "" if token is None else vocab.text(token)

    return ChatTemplate(source, text(vocab.bos), text(vocab.eos), name=name)
