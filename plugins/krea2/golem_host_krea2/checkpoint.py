"""The three files, open, with what they are; and whether they are still there as they were opened."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from golem_host_krea2.blocks import block_weights
from golem_host_krea2.encoder import layer_weights
from golem_host_krea2.files import File
from golem_host_krea2.folders import DIT, ENCODER, VAE, Found, open_role
from golem_host_krea2.hparams import DitHparams, EncoderHparams, dit_hparams, encoder_hparams
from golem_host_krea2.layer import LayerWeights
from golem_host_krea2.vae import Decoder


class Opened:
    """Files of one set of weights. `kept` holds blocks in memory by number, None where they are read for every step.

    Raises `ModelFileError` for files that do not fit what Krea 2 is, or each other.
    """

    def __init__(self, found: Found, *, keep: bool = False) -> None:
        self.found = found
        self.kept: dict[int, Any] | None = {} if keep else None
        self.digests: dict[str, str] = {}
        """sha256 of each file by its name, once they were computed."""
        self.colours: Any = None
        """What previews are made with, once it was fitted."""
        with ExitStack() as stack:
            self.dit, self.encoder, self.vae = (
                self._opened(stack, path, role)
                for path, role in ((found.dit, DIT), (found.encoder, ENCODER), (found.vae, VAE))
            )
            self.dit_hparams: DitHparams = dit_hparams(self.dit)
            self.encoder_hparams: EncoderHparams = encoder_hparams(self.encoder, self.dit_hparams.taps)
            if self.encoder_hparams.blocks.width != self.dit_hparams.text.width:
                raise self.encoder.refusal(
                    "embed_tokens.weight",
                    f"has rows of {self.encoder_hparams.blocks.width} values; {found.dit.name} reads "
                    f"{self.dit_hparams.text.width}",
                )
            self.decoder = Decoder(self.vae)
            self._files = stack.pop_all()

    def _opened(self, stack: ExitStack, path: Any, role: Any) -> File:
        file = open_role(path, role)
        stack.callback(file.close)
        return file

    def check_tensors(self) -> None:
        """Look at every tensor that is read. Raises `ModelFileError` for one that is missing or of another shape."""
        for number in range(self.dit_hparams.layers):
            self.block(number)
            self.dit.floats(f"blocks.{number}.mod.lin", 6 * self.dit_hparams.blocks.width)
        for kind, count in (("layerwise", self.dit_hparams.layerwise), ("refiner", self.dit_hparams.refiners)):
            for number in range(count):
                block_weights(self.dit, f"txtfusion.{kind}_blocks.{number}", self.dit_hparams.text)
        for number in range(self.encoder_hparams.layers):
            layer_weights(self.encoder, self.encoder_hparams, number)

    def block(self, number: int) -> LayerWeights:
        """A block of the diffusion model."""
        return block_weights(self.dit, f"blocks.{number}", self.dit_hparams.blocks)

    @property
    def unchanged(self) -> bool:
        """Whether all three files are still those that were opened."""
        return all(file.unchanged for file in (self.dit, self.encoder, self.vae))

    def close(self) -> None:
        self.kept = None
        self._files.close()
