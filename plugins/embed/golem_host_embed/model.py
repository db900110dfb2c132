"""An embedding model as the registry knows it: facts from the headers, memory it needs, and how it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from golem_host.api import Model, ModelFileError
from golem_host_embed.checkpoint import Checkpoint, open_checkpoint
from golem_host_embed.passes import pass_bytes, require_tensors

if TYPE_CHECKING:
    from golem_host.devices.device import Device
    from golem_host_embed.runtime import EmbedRuntime


class EmbedModel(Model):
    """A text encoder, of kind `embed`, or `rerank` for a cross-encoder.

    Raises `ModelFileError` for a file or directory that cannot be served, naming why.
    """

    plugin = "embed"

    def __init__(self, path: Path, *, name: str | None = None, device: str = "cpu") -> None:
        self.device = device
        self.name = name or model_name(path)
        self._read(path)

    def _read(self, path: Path) -> None:
        checkpoint = open_checkpoint(path)
        try:
            require_tensors(checkpoint)
            self._take(checkpoint)
        finally:
            checkpoint.close()

    def _take(self, checkpoint: Checkpoint) -> None:
        self.path = checkpoint.path
        self.aliases = () if checkpoint.path.name == self.name else (checkpoint.path.name,)
        self.kind = "rerank" if checkpoint.classifier else "embed"
        self.capabilities = ("rerank",) if checkpoint.classifier else ("embedding",)
        self.format = "safetensors" if checkpoint.path.is_dir() else "gguf"
        self.architecture = self.family = checkpoint.architecture
        self.parameter_count = sum(tensor.elements for tensor in checkpoint.tensors.values())
        self.quantization = checkpoint.quantization
        self.size_bytes = checkpoint.size_bytes
        self.context_length = checkpoint.context_length
        self.embedding_length = checkpoint.hparams.width
        self.modified = checkpoint.modified
        self.pooling = checkpoint.pooling
        self._pass_bytes = pass_bytes(checkpoint.hparams, checkpoint.context_length)

    def check(self) -> None:
        """Read what only loading needs. Raises `ModelFileError` for what would keep the model from being served."""
        checkpoint = open_checkpoint(self.path)
        try:
            checkpoint.tokens()
        finally:
            checkpoint.close()

    def memory_bytes(self, settings: Mapping[str, Any]) -> int:
        return self.size_bytes + self._pass_bytes

    def describe(self, settings: Mapping[str, Any]) -> str:
        return f"texts of up to {self.context_length} tokens"

    def load(self, device: Device, settings: Mapping[str, Any], progress: Callable[[float], None]) -> EmbedRuntime:
        from golem_host_embed.runtime import EmbedRuntime

        # The files may have been replaced since their headers were read.
        checkpoint = open_checkpoint(self.path)
        try:
            if checkpoint.classifier != (self.kind == "rerank"):
                raise ModelFileError(self.path, "was replaced by a model of another kind; start the host again")
            self._take(checkpoint)
            return EmbedRuntime(self, checkpoint, device, settings, progress=progress)
        except BaseException:
            checkpoint.close()
            raise

    def show(self, verbose: bool) -> dict[str, Any]:
        checkpoint = open_checkpoint(self.path)
        try:
            info = {key: _shown(value, verbose) for key, value in checkpoint.metadata.items() if key != "general.name"}
            info["general.parameter_count"] = self.parameter_count
            shown: dict[str, Any] = {"model_info": info}
            if verbose:
                shown["tensors"] = [
                    {"name": t.name, "type": t.type_name, "shape": list(reversed(t.shape))}
                    for t in checkpoint.tensors.values()
                ]
            licence = info.get("general.license")
            return shown if not licence else {**shown, "license": licence}
        finally:
            checkpoint.close()


def model_name(path: Path) -> str:
    """The name a model is served under when none is given: its file's without `.gguf`, or its directory's."""
    return path.name if path.suffix.lower() != ".gguf" else path.stem


def _shown(value: Any, verbose: bool) -> Any:
    """A metadata value as JSON; arrays are emptied unless asked for (`/api/show`)."""
    if isinstance(value, str | int | float | bool):
        return value
    if not verbose:
        return []
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [text.decode("utf-8", "replace") for text in value]
