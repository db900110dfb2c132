"""A loaded embedding model: its lane and tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from golem_host.api import Job, Lane, ModelFileError
from golem_host_embed.checkpoint import Checkpoint
from golem_host_embed.tokens import TextTokens, Tokens

if TYPE_CHECKING:
    from golem_host.devices.device import Device
    from golem_host_embed.model import EmbedModel


class EmbedRuntime:
    """What routes need of a loaded model.

    `context` is the longest text in tokens. `width` is how many numbers `submit` gives for a text: the components of a
    vector, or 1, the score, for a cross-encoder.
    """

    lane: Lane
    context: int
    width: int
    tokens: TextTokens

    def __init__(
        self,
        model: EmbedModel,
        checkpoint: Checkpoint,
        device: Device,
        settings: Mapping[str, Any],
        *,
        progress: Callable[[float], None],
    ) -> None:
        raise ModelFileError(checkpoint.path, "encoders are not computed by this version")

    def submit(self, texts: Sequence[Tokens]) -> Job[Any]:
        """Queue the texts of a request, 1 to `context` tokens each; the lane cuts them into passes.

        The job's result is float32 (texts, width) in their order: pooled, not normalised, or scores. Raises what
        `Lane.submit` raises.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Give the weights back; the checkpoint is closed with them."""
        raise NotImplementedError
