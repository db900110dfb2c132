"""What one embedding model is, whatever its files: a GGUF file or a sentence-transformers directory.

Both give the same: hyper-parameters, tensors under their GGUF names, a tokenizer, and how a text becomes one vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from golem_host.api import ModelFileError
from golem_host.weights.tensor import Tensor
from golem_host_embed.tokens import TextTokens

MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
MAX_POSITIONS = 1 << 20
"""Sizes past these are not models but damaged or hostile files."""
MIN_CONTEXT = 8
"""Tokens a text may have at least."""


class Pooling(Enum):
    """Which rows of a text's last layer make its vector."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"


class Gelu(Enum):
    """The two forms of GELU (Hendrycks and Gimpel 2016): exact, and the approximation by tanh that ggml computes."""

    ERF = "erf"
    TANH = "tanh"


@dataclass(frozen=True)
class Hparams:
    """Sizes and constants of an encoder; all checked to be positive and of a sane size.

    `positions` are the rows of the position table, 0 for a model that turns queries and keys (`rope_base`) instead.
    `experts` is 0 for a model without a mixture; `experts_used` of them are computed for a token.
    """

    layers: int
    width: int
    ff_width: int
    heads: int
    positions: int
    norm_eps: float
    gelu: Gelu
    rope_base: float | None = None
    experts: int = 0
    experts_used: int = 0


@dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint.

    `architecture` is the family's name in GGUF files (`bert`, `nomic-bert-moe`). `tensors` are views of mapped files by
    GGUF name, not yet checked for shape. `context_length` is the longest text in tokens, special ones included. With
    `classifier`, the model is a cross-encoder: the head (`cls.*`, a dense layer with tanh, if the file has it, then
    `cls.output.*`, one row) on the pooled row scores a pair of texts. `tokens()` reads the tokenizer, which may take
    long; raises `ModelFileError` for one that is not known here.
    """

    path: Path
    architecture: str
    hparams: Hparams
    tensors: Mapping[str, Tensor]
    pooling: Pooling
    classifier: bool
    context_length: int
    quantization: str
    size_bytes: int
    modified: float
    tokens: Callable[[], TextTokens]
    close: Callable[[], None]
    metadata: Mapping[str, object]
    """What `/api/show` lists, GGUF keys."""


def looks_like(path: Path) -> str | None:
    """The family of the encoder at `path`, None when this plugin does not take such a thing. Never raises."""
    from golem_host_embed import directory, gguf_file

    return directory.family(path) if path.is_dir() else gguf_file.family(path)


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a GGUF file or a directory. Raises `ModelFileError` for one that cannot be served, naming why."""
    from golem_host_embed import directory, gguf_file

    checkpoint = directory.open_directory(path) if path.is_dir() else gguf_file.open_file(path)
    if checkpoint.context_length < MIN_CONTEXT:
        checkpoint.close()
        raise ModelFileError(
            path, f"'context_length': texts of {checkpoint.context_length} tokens are too short to be of use"
        )
    return replace(checkpoint, tokens=lambda: _fitting_tokens(checkpoint))


def _fitting_tokens(checkpoint: Checkpoint) -> TextTokens:
    """The checkpoint's tokenizer. Raises `ModelFileError` where what it puts around texts is not in the tables."""
    tokens = checkpoint.tokens()
    frame, joined = tokens.frame, checkpoint.classifier
    around = (*frame.before, *frame.after, *(frame.between if joined else ()))
    wrong = next((id for id in around if not 0 <= id < tokens.size), None)
    if wrong is not None:
        raise ModelFileError(checkpoint.path, f"its tokenizer puts token {wrong} beside a text; it has {tokens.size}")
    if len(around) + MIN_CONTEXT // 2 > checkpoint.context_length:
        raise ModelFileError(
            checkpoint.path,
            f"its tokenizer puts {len(around)} tokens beside a text, of which the model takes "
            f"{checkpoint.context_length}",
        )
    types = checkpoint.tensors.get("token_types.weight")
    segments = 1 if types is None or len(types.shape) < 2 else types.shape[0]
    if joined and not 0 <= frame.second < segments:
        raise ModelFileError(
            checkpoint.path, f"its tokenizer gives the second text segment {frame.second}; the model has {segments}"
        )
    return tokens
