"""A laya checkpoint: a directory as Hugging Face ships it, everything in it checked before it is used.

`rl_agent_config.json`, `model.safetensors`, `encoder/config.json` (a transformers ModernBERT), `tokenizer/`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golem_host.api import ModelFileError
from golem_host.weights.config_json import Config, read_config
from golem_host.weights.safetensors import Safetensors, open_safetensors
from golem_host.weights.types import GgmlType
from golem_host_laya.questions import Kind

CONFIG = "rl_agent_config.json"
MAX_LEN = 8192
"""The longest sequence that is computed, whatever a checkpoint or a request asks for."""

_FLOATS = (GgmlType.F32, GgmlType.F16, GgmlType.BF16)
_LISTED = 6
"""Names of tensors in an error."""


@dataclass(frozen=True)
class Encoder:
    """What a ModernBERT is made of. Of each layer `full` says whether it sees the whole text; the others see `window`
    rows before and after. `thetas` are the rotation's bases of layers that see a window and of those that see all.
    """

    vocabulary: int
    width: int
    ff_width: int
    heads: int
    norm_eps: float
    window: int
    full: tuple[bool, ...]
    thetas: tuple[float, float]


@dataclass(frozen=True)
class Hparams:
    """`actions` are the outputs of the act head; `max_len` and `head_max_len` the budgets in tokens of a sequence and
    of its question; `temperatures` by kind of question, and by kind and bucket (`choice:3-5`) where there is one.
    """

    encoder: Encoder
    head_layers: int
    actions: int
    max_len: int
    head_max_len: int
    temperatures: tuple[float, ...]
    bucket_temperatures: dict[str, float]

    @property
    def head_heads(self) -> int:
        """Attention heads of the decision head's layers."""
        return max(1, self.encoder.width // 64)


class Checkpoint:
    """An open checkpoint; a context manager. Made by `open_checkpoint`."""

    def __init__(self, path: Path, hparams: Hparams, weights: Safetensors) -> None:
        self.path = path
        self.hparams = hparams
        self.weights = weights

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.weights.close()


def looks_like(path: Path) -> bool:
    """Whether a directory says that it is a laya checkpoint."""
    return (path / CONFIG).is_file()


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a directory. Raises `ModelFileError` for one that cannot be served, naming why."""
    if not path.exists():
        raise ModelFileError(path, "cannot be opened: No such file or directory")
    if not looks_like(path):
        raise ModelFileError(path, f"is no laya checkpoint: there is no {CONFIG} in it")
    for folder, files in (("encoder", ["config.json"]), ("tokenizer", ["tokenizer.json", "tokenizer_config.json"])):
        for file in files:
            if not (path / folder / file).is_file():
                raise ModelFileError(path, f"{folder}/{file} is missing: get the whole repository, its folders too")
    hparams = _hparams(read_config(path / CONFIG), _encoder(read_config(path / "encoder" / "config.json")))
    weights = open_safetensors(path / "model.safetensors")
    try:
        _check(weights, shapes(hparams))
    except BaseException:
        weights.close()
        raise
    return Checkpoint(path, hparams, weights)


def shapes(hparams: Hparams) -> dict[str, tuple[int, ...]]:
    """The tensors of a checkpoint by name."""
    encoder = hparams.encoder
    d, f = encoder.width, encoder.ff_width
    found: dict[str, tuple[int, ...]] = {
        "encoder.embeddings.tok_embeddings.weight": (encoder.vocabulary, d),
        "encoder.embeddings.norm.weight": (d,),
    }
    for i in range(len(encoder.full)):
        layer = f"encoder.layers.{i}"
        if i:
            found[f"{layer}.attn_norm.weight"] = (d,)
        found[f"{layer}.attn.Wqkv.weight"] = (3 * d, d)
        found[f"{layer}.attn.Wo.weight"] = (d, d)
        found[f"{layer}.mlp_norm.weight"] = (d,)
        found[f"{layer}.mlp.Wi.weight"] = (2 * f, d)
        found[f"{layer}.mlp.Wo.weight"] = (d, f)
    found["encoder.final_norm.weight"] = (d,)
    for i in range(hparams.head_layers):
        layer = f"head.layers.{i}"
        found[f"{layer}.self_attn.in_proj_weight"] = (3 * d, d)
        found[f"{layer}.self_attn.in_proj_bias"] = (3 * d,)
        found |= _with_bias(f"{layer}.self_attn.out_proj", d, d) | _with_bias(f"{layer}.linear1", 4 * d, d)
        found |= _with_bias(f"{layer}.linear2", d, 4 * d)
        found |= _with_bias(f"{layer}.norm1", d) | _with_bias(f"{layer}.norm2", d)
    found["type_emb.weight"] = (len(Kind), d)
    found |= _with_bias("scorer.0", d) | _with_bias("scorer.1", d, d) | _with_bias("scorer.3", 1, d)
    found |= _with_bias("act_head.0", 256, d + 4) | _with_bias("act_head.2", hparams.actions, 256)
    found["temperature"] = (3,)
    return found


def _with_bias(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _check(weights: Safetensors, expected: dict[str, tuple[int, ...]]) -> None:
    names = {*weights.tensors, *weights.unread}
    problems = [
        f"{what} {len(which)}: {', '.join(which[:_LISTED])}{', ...' if len(which) > _LISTED else ''}"
        for what, which in (
            ("tensors are missing,", sorted(expected.keys() - names)),
            ("tensors belong to no part of this model,", sorted(names - expected.keys())),
        )
        if which
    ]
    if problems:
        raise ModelFileError(weights.path, "; ".join(problems))
    for name, shape in expected.items():
        tensor = weights.tensors.get(name)
        if tensor is None or tensor.type not in _FLOATS:
            kind = weights.unread[name] if tensor is None else tensor.type_name
            raise ModelFileError(weights.path, f"tensor '{name}' is of type {kind}; F32, F16 and BF16 are served")
        if tensor.shape != shape:
            raise ModelFileError(
                weights.path, f"tensor '{name}' has shape {list(tensor.shape)}, {list(shape)} is expected"
            )


def _hparams(config: Config, encoder: Encoder) -> Hparams:
    missing = [key for key in ("encoder", "head_layers") if key not in config.values]
    if missing:
        raise ModelFileError(config.path, f"keys are missing: {', '.join(missing)}")
    layout = config.values.get("option_layout", "sequential")
    if layout != "sequential":
        raise ModelFileError(
            config.path, f"'option_layout' is {layout!r}; only 'sequential' is served, as in all published checkpoints"
        )
    costs = _object(config, "act_costs")
    by_kind = config.values.get("temperature", [1.0] * 3)
    if not isinstance(by_kind, list) or len(by_kind) != 3:
        raise ModelFileError(config.path, f"'temperature' is {by_kind!r}; a list of 3 numbers is expected")
    return Hparams(
        encoder=encoder,
        head_layers=config.positive("head_layers", 64, least=0),
        actions=len(costs) + 1,
        max_len=config.positive("max_len", MAX_LEN, 512),
        head_max_len=config.positive("head_max_len", MAX_LEN, 192),
        temperatures=tuple(map(temperature, by_kind)),
        bucket_temperatures={
            key: temperature(value) for key, value in _object(config, "temperature_by_options").items()
        },
    )


def _object(config: Config, key: str) -> dict[str, Any]:
    value = config.values.get(key, {})
    if not isinstance(value, dict):
        raise ModelFileError(config.path, f"'{key}' is {value!r}; an object is expected")
    return value


def temperature(value: Any) -> float:
    """A calibration's temperature as it is applied: within 0.5 and 5, 1 for what is no finite number."""
    try:
        number = 1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = 1.0
    return min(5.0, max(0.5, number)) if math.isfinite(number) else 1.0


def _encoder(config: Config) -> Encoder:
    config.require("model_type", "modernbert", None)
    config.require("hidden_activation", "gelu", "gelu")
    for key in ("norm_bias", "attention_bias", "mlp_bias"):
        config.require(key, False, False)
    width = config.positive("hidden_size", 1 << 16)
    heads = config.positive("num_attention_heads", 4096)
    if width % heads or width // heads % 2:
        raise ModelFileError(config.path, f"rows of {width} values do not divide into {heads} heads of pairs")
    eps = config.values.get("norm_eps", 1e-5)
    if not isinstance(eps, float) or not 0 < eps < 1:
        raise ModelFileError(config.path, f"'norm_eps' is {eps!r}; a number from 0 to 1 is expected")
    return Encoder(
        vocabulary=config.positive("vocab_size", 1 << 24),
        width=width,
        ff_width=config.positive("intermediate_size", 1 << 18),
        heads=heads,
        norm_eps=eps,
        # A window of one row on each side at least: none would be no window to the operation.
        window=config.positive("local_attention", 1 << 20, 128, least=2) // 2,
        full=_layers(config),
        thetas=(_theta(config, "sliding_attention", "local"), _theta(config, "full_attention", "global")),
    )


def _layers(config: Config) -> tuple[bool, ...]:
    count = config.positive("num_hidden_layers", 4096)
    kinds = config.values.get("layer_types")
    if kinds is None:
        every = config.positive("global_attn_every_n_layers", 4096, 3)
        return tuple(i % every == 0 for i in range(count))
    if not isinstance(kinds, list) or len(kinds) != count:
        raise ModelFileError(config.path, f"'layer_types' does not list the kinds of {count} layers")
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention"):
            raise ModelFileError(config.path, f"'layer_types' names {kind!r}, which is not served")
    return tuple(kind == "full_attention" for kind in kinds)


def _theta(config: Config, kind: str, name: str) -> float:
    """A rotation's base: from `rope_parameters` by kind of layer or for both, or from `global_rope_theta` and
    `local_rope_theta`; null for the latter means the former.
    """
    parameters = _object(config, "rope_parameters") if config.values.get("rope_parameters") is not None else {}
    own = parameters.get(kind)
    if own is None and "rope_theta" in parameters:
        own = parameters
    if own is not None:
        if not isinstance(own, dict) or own.get("rope_type", "default") != "default":
            raise ModelFileError(config.path, f"'rope_parameters' asks for a scaling of {kind}, which is not served")
    elif config.values.get("rope_scaling") is not None:
        raise ModelFileError(config.path, "'rope_scaling' is not served")
    value = (own or {}).get("rope_theta")
    if value is None:
        value = config.values.get(f"{name}_rope_theta", 10_000.0 if name == "local" else 160_000.0)
    if value is None and name == "local":
        value = config.values.get("global_rope_theta", 160_000.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 < value < 1e12:
        raise ModelFileError(config.path, f"the rotation's base of {kind} is {value!r}; a number over 1 is expected")
    return float(value)
