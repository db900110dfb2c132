"""A laya model as the registry knows it: facts from the headers, and how it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golem_host.api import Model
from golem_host_laya.checkpoint import Checkpoint, open_checkpoint
from golem_host_laya.passes import pass_bytes
from golem_host_laya.tokens import Tokens

if TYPE_CHECKING:
    from golem_host.devices.device import Device
    from golem_host_laya.runtime import LayaRuntime

KIND = "laya"


class LayaModel(Model):
    """A decision model. Raises `ModelFileError` for a directory that cannot be served, naming why."""

    plugin = "laya"
    kind = KIND
    format = "safetensors"
    family = "laya"
    architecture = "modernbert"
    capabilities = ("decision",)

    def __init__(self, path: Path, *, name: str | None = None, device: str = "cpu") -> None:
        self.device = device
        # A directory given as `.` has a name too.
        self.name = name or path.resolve().name
        self.path = path
        with open_checkpoint(path) as checkpoint:
            self._take(checkpoint)

    def _take(self, checkpoint: Checkpoint) -> None:
        weights, hparams = checkpoint.weights, checkpoint.hparams
        self.parameter_count = sum(tensor.elements for tensor in weights.tensors.values())
        self.quantization = weights.tensors["encoder.embeddings.tok_embeddings.weight"].type_name
        self.size_bytes = weights.size_bytes
        self.context_length = hparams.max_len
        self.embedding_length = hparams.encoder.width
        self._pass_bytes = pass_bytes(hparams)
        self.modified = weights.path.stat().st_mtime

    def memory_bytes(self, settings: Mapping[str, Any]) -> int:
        return self.size_bytes + self._pass_bytes

    def check(self) -> None:
        """Read what only loading needs. Raises `ModelFileError` for what would keep the model from being served."""
        with open_checkpoint(self.path) as checkpoint:
            Tokens(checkpoint.path / "tokenizer", checkpoint.hparams.encoder.vocabulary)

    def describe(self, settings: Mapping[str, Any]) -> str:
        return f"questions with their state of up to {self.context_length} tokens"

    def load(self, device: Device, settings: Mapping[str, Any], progress: Callable[[float], None]) -> LayaRuntime:
        from golem_host_laya.runtime import LayaRuntime

        # The files may have been replaced since their headers were read.
        checkpoint = open_checkpoint(self.path)
        try:
            self._take(checkpoint)
            return LayaRuntime(self, checkpoint, device, settings, progress=progress)
        except BaseException:
            checkpoint.close()
            raise

    def show(self, verbose: bool) -> dict[str, Any]:
        with open_checkpoint(self.path) as checkpoint:
            hparams = checkpoint.hparams
            encoder = hparams.encoder
            shown: dict[str, Any] = {
                "model_info": {
                    "general.architecture": self.architecture,
                    "general.parameter_count": self.parameter_count,
                    "modernbert.block_count": len(encoder.full),
                    "modernbert.context_length": hparams.max_len,
                    "modernbert.embedding_length": encoder.width,
                    "modernbert.feed_forward_length": encoder.ff_width,
                    "modernbert.attention.head_count": encoder.heads,
                    "modernbert.attention.sliding_window": encoder.window,
                    "modernbert.vocab_size": encoder.vocabulary,
                    "modernbert.decision.block_count": hparams.head_layers,
                    "modernbert.decision.max_head_tokens": hparams.head_max_len,
                }
            }
            if verbose:
                shown["tensors"] = [
                    {"name": tensor.name, "type": tensor.type_name, "shape": list(reversed(tensor.shape))}
                    for tensor in checkpoint.weights.tensors.values()
                ]
            return shown
