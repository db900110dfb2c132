"""A chat model as the registry knows it: facts from the header, memory it needs, and how it is loaded."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from golem_host.api import Model, ModelFileError
from golem_host.config import show_size
from golem_host.memory import available_bytes
from golem_host.ops import CacheType
from golem_host.weights.gguf import Gguf, open_gguf
from golem_host.weights.quantization import quantization_name
from golem_host.weights.tensor import Tensor
from golem_host_chat.counts import Counts
from golem_host_chat.families import Family, family_of
from golem_host_chat.families.third_party import Brought
from golem_host_chat.memory import cache_bytes, checkpoint_bytes, state_bytes

if TYPE_CHECKING:
    from golem_host.api import DerivedModel, Layer, Runtime
    from golem_host.devices.device import Device
    from golem_host.text.tokenizer import Tokenizer
    from golem_host_chat.derived import PreparedLayer
    from golem_host_chat.runtime import ChatRuntime
    from golem_host_chat.templates import ChatTemplate

log = logging.getLogger("golem_host.chat")

MIN_CONTEXT = 16
"""Positions a slot needs at least to be of any use."""


class ChatModel(Model):
    """A GGUF language model. Raises `ModelFileError` for a file that cannot be served, naming why."""

    kind = "chat"
    plugin = "chat"
    capabilities = ("completion",)

    def __init__(
        self,
        path: Path,
        *,
        name: str | None = None,
        device: str = "cpu",
        families: Mapping[str, Brought] | None = None,
    ) -> None:
        """`families` are those of other plugins."""
        self.device = device
        self.families = families
        self.name = name or model_name(path)
        self.counts = Counts()
        self._read(path)

    def _read(self, path: Path) -> None:
        with self._opened(path) as (gguf, family):
            self.path = gguf.path
            self.aliases = (gguf.path.name,)
            self.architecture = self.family = gguf.architecture
            self.parameter_count = sum(tensor.elements for tensor in gguf.tensors.values())
            self.quantization = quantization_name(gguf)
            self.size_bytes = gguf.size_bytes
            self.context_length = family.context_length
            self.embedding_length = family.embedding_length
            self.modified = max(part.stat().st_mtime for part in gguf.paths)
            self._weight_bytes = sum(tensor.nbytes for tensor in _multiplied(gguf))
            self._cache_specs = family.caches()
            self._state_specs = family.states()

    def check(self) -> None:
        """Read what only loading needs. Raises `ModelFileError` for what would keep the model from being served."""
        from golem_host_chat.runtime import template_of, text_rules
        from golem_host_chat.templates import TemplateError

        with open_gguf(self.path) as gguf:
            tokenizer, _ = text_rules(gguf)
            with suppress(TemplateError):  # refuses conversations only
                template_of(gguf, tokenizer, self.name)

    def slot_context(self, settings: Mapping[str, Any]) -> int:
        """Positions of one slot: an even share of `context`, no more than the checkpoint was trained for."""
        share = settings["context"] // settings["parallel"]
        if share < MIN_CONTEXT:
            raise ModelFileError(
                self.path,
                f"context {settings['context']} cut into {settings['parallel']} slots leaves {share} positions each; "
                f"raise --context or lower --parallel",
            )
        return min(share, self.context_length)

    def cache_type(self, settings: Mapping[str, Any]) -> CacheType:
        """How its caches store keys and values. Raises `ModelFileError` when its heads do not fit the type."""
        kind = CacheType(settings["kv-type"])
        try:
            for spec in self._cache_specs:
                kind.check(spec.key_dim)
                kind.check(spec.value_dim)
        except ValueError as error:
            raise ModelFileError(self.path, f"--kv-type {kind.value}: {error}") from error
        return kind

    def memory_bytes(self, settings: Mapping[str, Any]) -> int:
        context, kind = self.slot_context(settings), self.cache_type(settings)
        slots = settings["parallel"]
        caches = cache_bytes(self._cache_specs, slots=slots, context=context, kv_type=kind)
        weights = self._weight_bytes if settings["repack"] else 0  # else they stay in the mapped file
        return weights + caches + state_bytes(self._state_specs, slots=slots)

    def _granted_checkpoints(self, settings: Mapping[str, Any]) -> int:
        """Checkpoints for which there is memory in every slot, as many as `checkpoints` asks for at most.

        Raises `ModelFileError` when there is not even memory for the slots.
        """
        wanted, slots, free = settings["checkpoints"], settings["parallel"], available_bytes()
        if free is None:
            return wanted
        context, kind = self.slot_context(settings), self.cache_type(settings)
        if self.device == "cpu":  # other devices count their own
            needed = self.memory_bytes(settings)
            if needed > free:
                raise ModelFileError(
                    self.path,
                    f"it needs {show_size(needed)} of memory with {self.describe(settings)}, {show_size(free)} are "
                    "free; lower --context, or take a smaller file",
                )
            free -= needed
        each = slots * checkpoint_bytes(self._cache_specs, self._state_specs, context=context, kv_type=kind)
        if wanted * each <= free:
            return wanted
        log.warning(
            "%s: %d checkpoints for each of %d slots would take %s, %s are free: each slot keeps %d",
            self.name, wanted, slots, show_size(wanted * each), show_size(free), free // each,
        )  # fmt: skip
        return free // each

    def describe(self, settings: Mapping[str, Any]) -> str:
        slots, context = settings["parallel"], self.slot_context(settings)
        return f"{slots} slot{'s' if slots != 1 else ''} of {context} positions"

    def describe_template(self) -> str:
        """What the file's own template knows. Tries it, which takes a while."""
        from golem_host_chat.templates import ChatTemplate, TemplateError

        with open_gguf(self.path) as gguf:
            source = gguf.string("tokenizer.chat_template", None)
        if source is None:
            return "none: texts are completed, conversations refused"
        try:
            known = ChatTemplate(source).capabilities
        except TemplateError as error:
            return f"cannot be used, conversations are refused: {error}"
        return ", ".join(f"{each}: {'yes' if each in known else 'no'}" for each in ("tools", "thinking"))

    def load(self, device: Device, settings: Mapping[str, Any], progress: Callable[[float], None]) -> ChatRuntime:
        from golem_host_chat.runtime import ChatRuntime

        # The file may have been replaced since its header was read; what is told of a model is true of what answers.
        self._read(self.path)
        context = self.slot_context(settings)
        if context < settings["context"] // settings["parallel"]:
            log.warning("%s was trained for %d positions; its slots hold no more", self.name, context)
        kv_type = self.cache_type(settings)
        checkpoints = self._granted_checkpoints(settings)
        runtime = ChatRuntime(
            self, device, settings, context=context, kv_type=kv_type, checkpoints=checkpoints, progress=progress
        )
        self._show_abilities(runtime.template, runtime.tokenizer)
        return runtime

    def show(self, verbose: bool) -> dict[str, Any]:
        from golem_host.text.tokenizer import tokenizer_from_gguf
        from golem_host_chat.templates import ChatTemplate, TemplateError

        with open_gguf(self.path) as gguf:
            source = gguf.string("tokenizer.chat_template", None)
            with suppress(TemplateError, ModelFileError):
                self._show_abilities(None if source is None else ChatTemplate(source), tokenizer_from_gguf(gguf))
            info = {key: _shown(gguf.metadata[key], verbose) for key in gguf.metadata}
            template = info.pop("tokenizer.chat_template", "")
            info.pop("general.name", None)
            info["general.parameter_count"] = self.parameter_count
            shown: dict[str, Any] = {"template": template, "model_info": info, "parameters": _parameters(gguf)}
            if verbose:
                shown["tensors"] = [
                    {"name": t.name, "type": t.type_name, "shape": list(reversed(t.shape))}
                    for t in gguf.tensors.values()
                ]
            licence = info.get("general.license")
            return shown if not licence else {**shown, "license": licence}

    def _show_abilities(self, template: ChatTemplate | None, tokenizer: Tokenizer) -> None:
        """Trying a template and reading a vocabulary take too long for every look at a model."""
        insert = () if tokenizer.vocab.infill is None else ("insert",)
        self.capabilities = ("completion", *insert, *(template.capabilities if template else ()))

    def prepare_layer(self, layer: Layer) -> PreparedLayer:
        from golem_host_chat.derived import prepare_layer

        return prepare_layer(self.path, self.name, layer)

    def layer_capabilities(self, prepared: PreparedLayer) -> tuple[str, ...]:
        template = prepared.template
        if template is None:
            return self.capabilities
        own = tuple(each for each in self.capabilities if each in ("completion", "insert"))
        return (*own, *template.capabilities)

    def layered(self, runtime: Runtime, derived: DerivedModel) -> Runtime:
        from golem_host_chat.derived import DerivedRuntime

        return cast("Runtime", DerivedRuntime(cast("ChatRuntime", runtime), derived))

    @contextmanager
    def _opened(self, path: Path) -> Iterator[tuple[Gguf, Family]]:
        with open_gguf(path) as gguf:
            kind = gguf.string("general.type", "model")
            if kind != "model":
                raise ModelFileError(path, f"this is a GGUF of type '{kind}', not a language model")
            yield gguf, family_of(gguf, self.families)


def _multiplied(gguf: Gguf) -> Iterator[Tensor]:
    """All tensors but the tables of which only rows are read, from the mapped file."""
    tables = {"per_layer_token_embd.weight"}
    if "output.weight" in gguf.tensors:
        tables.add("token_embd.weight")
    return (tensor for name, tensor in gguf.tensors.items() if name not in tables)


def model_name(path: Path) -> str:
    """The name a file is served under when none is given: its name without `.gguf` and shard numbers."""
    return re.sub(r"(-\d{5}-of-\d{5})?\.gguf$", "", path.name, flags=re.IGNORECASE)


def _shown(value: Any, verbose: bool) -> Any:
    """A metadata value as JSON; arrays are emptied unless asked for (`/api/show`)."""
    if isinstance(value, str | int | float | bool):
        return value
    if not verbose:
        return []
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [text.decode("utf-8", "replace") for text in value]


def _parameters(gguf: Gguf) -> str:
    """The file's own sampling defaults, one `name value` a line."""
    prefix = "general.sampling."
    lines = [f"{key.removeprefix(prefix):<30} {gguf.metadata[key]}" for key in gguf.metadata if key.startswith(prefix)]
    return "\n".join(lines)
