"""A speech-to-text model as the registry knows it: facts from the headers, and how it is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golem_host.api import Model, OperatorError
from golem_host_stt.checkpoint import Checkpoint, open_checkpoint
from golem_host_stt.mimi_config import FRAME

if TYPE_CHECKING:
    from golem_host.devices.device import Device
    from golem_host_stt.runtime import SttRuntime

KIND = "stt"


class SttModel(Model):
    """A Kyutai speech-to-text model. Raises `ModelFileError` for a directory that cannot be served, naming why."""

    plugin = "stt"
    kind = KIND
    format = "safetensors"
    family = "kyutai-stt"
    architecture = "moshi"
    capabilities = ("transcription",)

    def __init__(self, path: Path, *, name: str | None = None, device: str = "cpu") -> None:
        self.device = device
        # A directory given as `.` has a name too.
        self.name = name or path.resolve().name
        self.path = path
        with open_checkpoint(path) as checkpoint:
            self._take(checkpoint)

    def _take(self, checkpoint: Checkpoint) -> None:
        lm, mimi = checkpoint.lm, checkpoint.mimi
        self.parameter_count = sum(tensor.elements for tensor in checkpoint.lm_tensors.values())
        self.quantization = checkpoint.lm_tensors["text_linear.weight"].type_name
        self.size_bytes = checkpoint.size_bytes
        self.context_length = lm.context
        self.embedding_length = lm.width
        self.modified = checkpoint.modified
        self.languages = languages(checkpoint.tokenizer.name)
        self.timing = checkpoint.timing
        # keys and values of both transformers (half and single precision)
        self._stream_bytes = 4 * lm.context * lm.width * lm.layers + 8 * (mimi.context + 64) * mimi.width * mimi.layers
        # of a frame the widest tensors of the codec's passes, of which there are recordings of two widths in all
        self._frame_bytes = 4 * FRAME * mimi.filters * 8
        self._lm_shapes = {name: tensor.shape for name, tensor in checkpoint.lm_tensors.items()}

    def memory_bytes(self, settings: Mapping[str, Any]) -> int:
        streams = settings["stt-streams"]
        weights = self.size_bytes
        if settings["stt-quantize"] == "q8_0":
            matrices = sum(s[0] * s[1] for n, s in self._lm_shapes.items() if len(s) == 2 and "emb" not in n)
            weights += matrices * 34 // 32
        return weights + streams * self._stream_bytes + 2 * max(8, streams) * self._frame_bytes

    def check(self) -> None:
        """Read what only loading needs. Raises `ModelFileError` for what would keep the model from being served."""
        from golem_host_stt.text import Pieces

        with open_checkpoint(self.path) as checkpoint:
            Pieces(checkpoint.tokenizer, checkpoint.lm.text_cards, checkpoint.lm.padding)

    def describe(self, settings: Mapping[str, Any]) -> str:
        streams = settings["stt-streams"]
        return f"{streams} stream{'s' if streams > 1 else ''}, words {self.timing.delay:g} s after they are said"

    def load(self, device: Device, settings: Mapping[str, Any], progress: Callable[[float], None]) -> SttRuntime:
        from golem_host_stt.runtime import SttRuntime

        if not device.name.startswith("cpu"):
            raise OperatorError(
                f"speech to text runs on the processor only, not on {device.name}: set --stt-device cpu"
            )
        # The files may have been replaced since their headers were read.
        checkpoint = open_checkpoint(self.path)
        try:
            self._take(checkpoint)
            return SttRuntime(self, checkpoint, device, settings, progress=progress)
        except BaseException:
            checkpoint.close()
            raise

    def show(self, verbose: bool) -> dict[str, Any]:
        with open_checkpoint(self.path) as checkpoint:
            lm, mimi = checkpoint.lm, checkpoint.mimi
            shown: dict[str, Any] = {
                "model_info": {
                    "general.architecture": self.architecture,
                    "general.parameter_count": self.parameter_count,
                    "moshi.block_count": lm.layers,
                    "moshi.context_length": lm.context,
                    "moshi.embedding_length": lm.width,
                    "moshi.feed_forward_length": lm.ff_width,
                    "moshi.attention.head_count": lm.heads,
                    "moshi.rope.freq_base": lm.rope_base,
                    "moshi.vocab_size": lm.text_cards,
                    "moshi.codebooks": lm.levels,
                    "moshi.codebook_size": lm.cards,
                    "moshi.pause_heads": lm.pauses,
                    "moshi.delay_seconds": checkpoint.timing.delay,
                    "mimi.block_count": mimi.layers,
                    "mimi.embedding_length": mimi.width,
                }
            }
            if verbose:
                tensors = [*checkpoint.lm_tensors.items(), *checkpoint.mimi_tensors.items()]
                shown["tensors"] = [
                    {"name": name, "type": tensor.type_name, "shape": list(reversed(tensor.shape))}
                    for name, tensor in tensors
                ]
            return shown


def languages(tokenizer: str) -> tuple[str, ...]:
    """The languages that the name of a published tokenizer tells: `tokenizer_en_fr_audio_8000.model`."""
    match = re.match(r"tokenizer_([a-z]{2}(?:_[a-z]{2})*)_audio", tokenizer)
    return tuple(match[1].split("_")) if match else ()
