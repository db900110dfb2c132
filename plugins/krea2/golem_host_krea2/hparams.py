"""What the three files are, read from the shapes of their tensors, and the tensors each must have."""

from __future__ import annotations

from dataclasses import dataclass

from golem_host.api import ModelFileError
from golem_host_krea2.files import File

MAX_WIDTH = 1 << 16
MAX_LAYERS = 1024
LATENT_CHANNELS = 16
PATCH = 2


@dataclass(frozen=True)
class Blocks:
    """Shapes of a stack of transformer blocks."""

    width: int
    ff_width: int
    heads: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class DitHparams:
    """The diffusion transformer: `blocks` of them, and the text fusion before. `taps` layers of the encoder feed it."""

    layers: int
    blocks: Blocks
    taps: int
    text: Blocks
    layerwise: int
    refiners: int
    time_dim: int

    @property
    def rope_dims(self) -> tuple[int, int, int]:
        """Dimensions of a head that turn by text position, by row and by column."""
        sixth = 6 * (self.blocks.head_dim // 16)
        return self.blocks.head_dim - 2 * sixth, sixth, sixth


@dataclass(frozen=True)
class EncoderHparams:
    """The language part of the text encoder, as far as it is computed."""

    vocabulary: int
    layers: int
    blocks: Blocks


def dit_hparams(file: File) -> DitHparams:
    """Raises `ModelFileError` for a file of another structure."""
    blocks = _dit_blocks(file, "blocks.0", file.shape("first.weight")[0])
    text_width = file.shape("txtfusion.layerwise_blocks.0.prenorm.scale")[0]
    text = _dit_blocks(file, "txtfusion.layerwise_blocks.0", text_width)
    if text.kv_heads != text.heads:
        raise ModelFileError(file.path, f"its text fusion has {text.heads} heads and {text.kv_heads} of keys")
    if file.shape("first.weight")[1:] != (LATENT_CHANNELS * PATCH * PATCH,):
        raise file.refusal("first.weight", f"does not take patches of 2 x 2 latents of {LATENT_CHANNELS} channels")
    return DitHparams(
        layers=_count(file, "blocks", "prenorm.scale"),
        blocks=blocks,
        taps=file.shape("txtfusion.projector.weight")[-1],
        text=text,
        layerwise=_count(file, "txtfusion.layerwise_blocks", "prenorm.scale"),
        refiners=_count(file, "txtfusion.refiner_blocks", "prenorm.scale"),
        time_dim=file.shape("tmlp.0.weight")[-1],
    )


def encoder_hparams(file: File, taps: int) -> EncoderHparams:
    """Of a Qwen3-VL or Qwen3 model with at least the layers that `taps` of Krea 2 are taken from."""
    first = "layers.0"
    vocabulary, width = _matrix(file, "embed_tokens.weight")
    head_dim = file.shape(f"{first}.self_attn.q_norm.weight")[0]
    blocks = _blocks(
        file,
        width,
        head_dim,
        _matrix(file, f"{first}.self_attn.q_proj.weight")[0],
        _matrix(file, f"{first}.self_attn.k_proj.weight")[0],
        _matrix(file, f"{first}.mlp.gate_proj.weight")[0],
    )
    layers = _count(file, "layers", "input_layernorm.weight")
    needed = tapped_layers(taps)[-1]
    if layers < needed:
        raise ModelFileError(file.path, f"has {layers} layers; Krea 2 reads what enters layer {needed}")
    return EncoderHparams(vocabulary, needed, blocks)


def tapped_layers(taps: int) -> list[int]:
    """The layers whose inputs Krea 2 reads: 2, 5, 8 ... 35 for its 12 taps."""
    return [3 * tap + 2 for tap in range(taps)]


def _dit_blocks(file: File, first: str, width: int) -> Blocks:
    head_dim = file.shape(f"{first}.attn.qknorm.qnorm.scale")[0]
    q, k = (_matrix(file, f"{first}.attn.{name}.weight")[0] for name in ("wq", "wk"))
    return _blocks(file, width, head_dim, q, k, _matrix(file, f"{first}.mlp.gate.weight")[0])


def _blocks(file: File, width: int, head_dim: int, q: int, k: int, ff: int) -> Blocks:
    if not 0 < width <= MAX_WIDTH or not 0 < ff <= MAX_WIDTH or not 0 < head_dim <= 1024 or head_dim % 2:
        raise ModelFileError(file.path, f"has rows of {width} and {ff} values and heads of {head_dim}")
    if q % head_dim or k % head_dim or not k or q % k:
        raise ModelFileError(file.path, f"has {q} values of queries and {k} of keys for heads of {head_dim}")
    return Blocks(width, ff, q // head_dim, k // head_dim, head_dim)


def _matrix(file: File, name: str) -> tuple[int, int]:
    shape = file.shape(name)
    if len(shape) != 2:
        raise file.refusal(name, f"has shape {list(shape)}; a matrix is expected")
    return shape[0], shape[1]


def _count(file: File, stack: str, last: str) -> int:
    """How many of a stack there are: numbered from 0 without gaps."""
    there = set(file.names)
    count = next((i for i in range(MAX_LAYERS) if f"{stack}.{i}.{last}" not in there), MAX_LAYERS)
    if not 0 < count < MAX_LAYERS:
        raise ModelFileError(file.path, f"has {count} {stack}")
    return count
