"""Krea 2 as the registry knows it: facts from the files' headers, and how it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golem_host.api import Model, OperatorError
from golem_host_krea2.checkpoint import Opened
from golem_host_krea2.folders import find_files
from golem_host_krea2.tokens import Tokens, open_tokens

if TYPE_CHECKING:
    from golem_host.devices.device import Device
    from golem_host_krea2.runtime import Krea2Runtime

KIND = "image"


class Krea2Model(Model):
    """The three files of a ComfyUI directory. Raises `ModelFileError` for what is missing, and for what does not fit.

    `tokenizer` is where the tokenizer is, if somebody said so; `ggufs` are files that may have it.
    """

    plugin = "krea2"
    kind = KIND
    family = architecture = "krea2"
    capabilities = ("image",)

    def __init__(
        self,
        root: Path,
        *,
        name: str | None = None,
        device: str = "cpu",
        tokenizer: Path | None = None,
        ggufs: Sequence[Path] = (),
    ) -> None:
        self.device = device
        self._found = find_files(root)
        self._tokenizer, self._ggufs = tokenizer, ggufs
        self.path = self._found.dit
        self.name = name or self.path.stem
        self.format = self.path.suffix.removeprefix(".").lower()
        opened = Opened(self._found)
        try:
            opened.check_tensors()
            self._take(opened)
        finally:
            opened.close()

    def _take(self, opened: Opened) -> None:
        files = (opened.dit, opened.encoder, opened.vae)
        self.size_bytes = sum(file.size_bytes for file in files)
        self.parameter_count = opened.dit.elements
        self.quantization = opened.dit.type_name("blocks.0.attn.wq.weight")
        self.modified = max(file.path.stat().st_mtime for file in files)
        self._dit_bytes = opened.dit.size_bytes

    def memory_bytes(self, settings: Mapping[str, Any]) -> int:
        """What stays between pictures; what one takes is told when it is asked for."""
        return self._dit_bytes if settings["krea2-keep"] else 0

    def check(self) -> None:
        """Look for the tokenizer. Raises `ModelFileError` without one."""
        opened = Opened(self._found)
        try:
            self._tokens(opened)
        finally:
            opened.close()

    def describe(self, settings: Mapping[str, Any]) -> str:
        return f"pictures, with {self._found.encoder.name} and {self._found.vae.name}"

    def load(self, device: Device, settings: Mapping[str, Any], progress: Callable[[float], None]) -> Krea2Runtime:
        from golem_host_krea2.runtime import Krea2Runtime

        if not hasattr(device.backend, "stage"):
            raise OperatorError(
                f"device {device.name} draws no pictures yet: it has no convolution of images, no attention over all "
                "rows and no weights that take each other's place; start with --krea2-device cpu"
            )
        # The first picture would import them otherwise, and an import holds every other thread up, live streams among
        # them.
        import torch  # noqa: F401
        from PIL import Image

        Image.preinit()

        opened = Opened(self._found, keep=bool(settings["krea2-keep"]))
        try:
            self._take(opened)
            return Krea2Runtime(self, opened, self._tokens(opened), device, settings, progress)
        except BaseException:
            opened.close()
            raise

    def _tokens(self, opened: Opened) -> Tokens:
        found = self._found
        return open_tokens(self._tokenizer, found.comfy, found.encoder, self._ggufs, opened.encoder_hparams.vocabulary)

    def show(self, verbose: bool) -> dict[str, Any]:
        opened = Opened(self._found)
        try:
            hparams = opened.dit_hparams
            return {
                "model_info": {
                    "general.architecture": self.architecture,
                    "general.parameter_count": self.parameter_count,
                    "krea2.block_count": hparams.layers,
                    "krea2.embedding_length": hparams.blocks.width,
                    "krea2.feed_forward_length": hparams.blocks.ff_width,
                    "krea2.attention.head_count": hparams.blocks.heads,
                    "krea2.attention.head_count_kv": hparams.blocks.kv_heads,
                    "krea2.text_encoder": opened.encoder.path.name,
                    "krea2.vae": opened.vae.path.name,
                }
            }
        finally:
            opened.close()
