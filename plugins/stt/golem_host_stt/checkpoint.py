"""A Kyutai speech-to-text checkpoint: a directory as Hugging Face ships it, everything in it checked before it is used.

`config.json` names the others: the language model's and the codec's safetensors and a SentencePiece model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golem_host.api import ModelFileError
from golem_host.weights.config_json import Config, read_config
from golem_host.weights.safetensors import Safetensors, open_safetensors
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType
from golem_host_stt.mimi_config import mimi_shapes, read_mimi

CONFIG = "config.json"
PAUSE_CLASSES = 6
"""Outputs of each head that tells pauses; the first is that of a pause at least as long as the head's."""

_FLOATS = (GgmlType.F32, GgmlType.F16, GgmlType.BF16)
_LISTED = 6
"""Names of tensors in an error."""
_PUBLISHED_NAMES = {"self_attn.in_projs.0.weight": "self_attn.in_proj_weight",
                    "self_attn.in_proj.weight": "self_attn.in_proj_weight",
                    "self_attn.out_projs.0.weight": "self_attn.out_proj.weight",
                    "_codebook.inited": "_codebook._initialized",
                    "_codebook.cluster_size": "_codebook.cluster_usage",
                    "_codebook.embed_avg": "_codebook.embedding_sum",
                    "_codebook.embed_sum": "_codebook.embedding_sum"}  # fmt: skip
"""What tensors are called in files of other releases of moshi, by how their names end."""


@dataclass(frozen=True)
class Lm:
    """The decoder: its sizes. `text_cards` text ids and `cards` codes of `levels` levels have one more row each in
    their tables, which stands for the beginning. Attention sees `context` steps; `pauses` are the heads that tell them.
    """

    width: int
    ff_width: int
    heads: int
    layers: int
    context: int
    rope_base: float
    text_cards: int
    cards: int
    levels: int
    pauses: int
    padding: int


@dataclass(frozen=True)
class Timing:
    """Seconds that words come after what they say, and of silence that audio must begin with."""

    delay: float
    prefix: float


class Checkpoint:
    """An open checkpoint; a context manager. Made by `open_checkpoint`.

    `lm_tensors` and `mimi_tensors` are the weights by the names of the published files.
    """

    def __init__(self, path: Path, config: Config) -> None:
        self.path = path
        self.lm = _lm(config)
        self.timing = _timing(config)
        self.tokenizer = _file(path, config, "tokenizer_name", None)
        self.mimi = read_mimi(
            _file(path, config, "mimi_config_name", None) if "mimi_config_name" in config.values else None
        )
        if self.mimi.entries != self.lm.cards:
            raise ModelFileError(config.path, f"'card' is {self.lm.cards}; the codec has {self.mimi.entries} entries")
        if self.mimi.levels < self.lm.levels:
            raise ModelFileError(config.path, f"'n_q' is {self.lm.levels}; the codec has {self.mimi.levels} levels")
        self._open: list[Safetensors] = []
        try:
            weights = self._weights(_file(path, config, "moshi_name", "model.safetensors"))
            self.lm_tensors = _checked(weights, lm_shapes(self.lm), others=False)
            codec = self._weights(_file(path, config, "mimi_name", None))
            self.mimi_tensors = _checked(codec, mimi_shapes(self.mimi, self.lm.levels), others=True)
        except BaseException:
            self.close()
            raise
        self.size_bytes = weights.size_bytes + codec.size_bytes
        self.modified = weights.path.stat().st_mtime

    def _weights(self, path: Path) -> Safetensors:
        opened = open_safetensors(path)
        self._open.append(opened)
        return opened

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.lm_tensors: dict[str, Tensor] = {}
        self.mimi_tensors: dict[str, Tensor] = {}
        for each in self._open:
            each.close()


def looks_like(path: Path) -> bool:
    """Whether a directory says that it is a checkpoint of this kind."""
    if not (path / CONFIG).is_file():
        return False
    try:
        return read_config(path / CONFIG).values.get("model_type") == "stt"
    except ModelFileError:
        return False


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a directory. Raises `ModelFileError` for one that cannot be served, naming why."""
    if not path.exists():
        raise ModelFileError(path, "cannot be opened: No such file or directory")
    if not (path / CONFIG).is_file():
        raise ModelFileError(path, f"is no speech-to-text checkpoint: there is no {CONFIG} in it")
    return Checkpoint(path, read_config(path / CONFIG))


def lm_shapes(lm: Lm) -> dict[str, tuple[int, ...]]:
    """The language model's tensors by name, norms as vectors."""
    d, f = lm.width, lm.ff_width
    found: dict[str, tuple[int, ...]] = {f"emb.{level}.weight": (lm.cards + 1, d) for level in range(lm.levels)}
    found["text_emb.weight"] = (lm.text_cards + 1, d)
    for i in range(lm.layers):
        layer = f"transformer.layers.{i}"
        found[f"{layer}.self_attn.in_proj_weight"] = (3 * d, d)
        found[f"{layer}.self_attn.out_proj.weight"] = (d, d)
        found[f"{layer}.norm1.alpha"] = found[f"{layer}.norm2.alpha"] = (d,)
        found[f"{layer}.gating.linear_in.weight"] = (2 * f, d)
        found[f"{layer}.gating.linear_out.weight"] = (d, f)
    found["out_norm.alpha"] = (d,)
    found["text_linear.weight"] = (lm.text_cards, d)
    found |= {f"extra_heads.{head}.weight": (PAUSE_CLASSES, d) for head in range(lm.pauses)}
    return found


def _lm(config: Config) -> Lm:
    values = config.values
    for key, expected in (
        ("model_type", "stt"),
        ("dep_q", 0),
        ("causal", True),
        ("layer_scale", None),
        ("gating", "silu"),
        ("norm", "rms_norm_f32"),
        ("positional_embedding", "rope"),
    ):
        config.require(key, expected, None if key == "layer_scale" else "missing")
    for key in ("conditioners", "cross_attention", "fuser", "quantize", "lora", "lora_name", "norm_emb", "bias_proj"):
        if values.get(key):
            raise ModelFileError(config.path, f"'{key}' is {values[key]!r}; models with it are not served")
    config.require("existing_text_end_padding_id", 0, 0)
    levels = config.positive("n_q", 64)
    delays = values.get("delays")
    if delays != [0] * (levels + 1):
        raise ModelFileError(config.path, f"'delays' is {delays!r}; only {levels + 1} delays of 0 are served")
    width, heads = config.positive("dim", 1 << 14), config.positive("num_heads", 256)
    if width % heads or width // heads % 2 or width // heads > 1024:
        reason = f"'dim' {width} does not divide into {heads} heads of an even size, up to 1024"
        raise ModelFileError(config.path, reason)
    scale = _number(config, "hidden_scale", 1, 16)
    wide = int(scale * width)
    text_cards = config.positive("text_card", 1 << 20, least=5)
    pauses = config.positive("extra_heads_num_heads", 16, 0, least=0)
    if pauses:
        config.require("extra_heads_dim", PAUSE_CLASSES, PAUSE_CLASSES)
    return Lm(
        width=width,
        # moshi's rule (`ActivationGating`): 2/3 of the scaled width, but 21/8 of the width where that is 4 times it
        ff_width=21 * width // 8 if wide == 4 * width else 2 * wide // 3,
        heads=heads,
        layers=config.positive("num_layers", 512),
        context=config.positive("context", 1 << 16),
        rope_base=_number(config, "max_period", 1, 1e9),
        text_cards=text_cards,
        cards=config.positive("card", 1 << 16),
        levels=levels,
        pauses=pauses,
        padding=config.positive("existing_text_padding_id", text_cards - 1),
    )


def _timing(config: Config) -> Timing:
    values = config.values.get("stt_config")
    if not isinstance(values, dict):
        raise ModelFileError(config.path, f"'stt_config' is {values!r}; an object is expected")
    inner = Config(config.path, values)
    return Timing(_number(inner, "audio_delay_seconds", 0, 30), _number(inner, "audio_silence_prefix_seconds", 0, 30))


def _number(config: Config, key: str, least: float, most: float) -> float:
    value: Any = config.values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ModelFileError(config.path, f"'{key}' is {value!r}; a number from {least} to {most} is expected")
    return float(value)


def _file(folder: Path, config: Config, key: str, default: str | None) -> Path:
    """The file of the directory that the configuration names."""
    name = config.values.get(key, default)
    if not isinstance(name, str) or not name or Path(name).name != name or "\0" in name:
        raise ModelFileError(config.path, f"'{key}' is {name!r}; the name of a file beside it is expected")
    if not (folder / name).is_file():
        raise ModelFileError(folder, f"{name} is missing: get the whole repository")
    return folder / name


def _published(name: str) -> str:
    for old, new in _PUBLISHED_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _checked(weights: Safetensors, expected: dict[str, tuple[int, ...]], *, others: bool) -> dict[str, Tensor]:
    """The expected tensors by the published names. Vectors may be stored with further axes of 1; `others` says that
    the file may hold more."""
    found: dict[str, Tensor] = {}
    for name, tensor in weights.tensors.items():
        if found.setdefault(_published(name), tensor) is not tensor:
            raise ModelFileError(weights.path, f"tensor '{_published(name)}' is there under two names")
    names = {*found, *weights.unread}
    problems = [
        f"{what} {len(which)}: {', '.join(which[:_LISTED])}{', ...' if len(which) > _LISTED else ''}"
        for what, which in (
            ("tensors are missing,", sorted(expected.keys() - names)),
            ("tensors belong to no part of this model,", sorted(set() if others else names - expected.keys())),
        )
        if which
    ]
    if problems:
        raise ModelFileError(weights.path, "; ".join(problems))
    for name, shape in expected.items():
        tensor = found.get(name)
        if tensor is None or tensor.type not in _FLOATS:
            kind = weights.unread[name] if tensor is None else tensor.type_name
            raise ModelFileError(weights.path, f"tensor '{name}' is stored as {kind}; F32, F16 and BF16 are served")
        stored = tensor.shape
        if len(shape) == 1 and set(stored[:-1]) <= {1}:
            stored = stored[-1:]
        if stored != shape:
            raise ModelFileError(weights.path, f"tensor '{name}' has shape {tensor.shape}; {shape} is expected")
    return {name: found[name] for name in expected}
