"""How tokens are drawn: the sampling fields of a request, their defaults and their limits.

Names are llama-server's request fields, defaults llama-server's (`common/common.h` of build b11434). A limit is
either soft (a value outside is moved to the nearest bound) or hard (it is an error), field by field as llama-server
does it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from golem_host_chat.sampling_dry import Restarts

DEFAULT_SAMPLERS = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
"""The order of the chain."""

SAMPLERS = (*DEFAULT_SAMPLERS, "adaptive_p")
"""All there are; `adaptive_p` draws instead of the usual draw, wherever it stands."""

RANDOM_SEED = 0xFFFFFFFF
"""llama-server's seed for "draw one"; -1 in 32 bits."""

_INT_MAX = 2**31 - 1
_LETTERS = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
    "a": "adaptive_p",
}
_ALIASES = {"nucleus": "top_p", "temp": "temperature", "typ": "typ_p", "typical_p": "typ_p"}


@dataclass(frozen=True)
class SamplingParams:
    """The sampling of one answer. `sampling_request.read_sampling` and `defaults_from_metadata` keep the limits."""

    temperature: float = 0.8
    """Logits are divided by it; 0 takes the most likely token."""
    top_k: int = 40
    """Keep the k most likely tokens; 0: all."""
    top_p: float = 0.95
    """Keep the shortest list of most likely tokens that holds this probability; 1: all."""
    min_p: float = 0.05
    """Drop tokens below this share of the most likely token's probability; 0: none."""
    typical_p: float = 1.0
    """Keep the tokens whose surprise is nearest to the entropy, up to this probability; 1: all."""
    top_n_sigma: float = -1.0
    """Drop tokens further below the best logit than this many standard deviations; 0 or less: none."""
    xtc_probability: float = 0.0
    """How often the most likely tokens are dropped."""
    xtc_threshold: float = 0.1
    """From which probability on they are; the least likely of them stays. Over 0.5: never."""
    dynatemp_range: float = 0.0
    """The temperature moves this far around `temperature`, with the entropy; 0: it does not."""
    dynatemp_exponent: float = 1.0
    min_keep: int = 0
    """top_p, min_p, typical_p and xtc leave at least this many tokens."""
    repeat_last_n: int = 64
    """How many tokens back, prompt included, the three penalties look; 0: off."""
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    dry_multiplier: float = 0.0
    """What tokens lose that go on repeating `dry_allowed_length` tokens, times `dry_base` for each more; 0: off."""
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    """How many tokens back, prompt included, dry looks for a repetition; 0: off."""
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    """Texts that repetitions never reach across."""
    dry_restarts: Restarts = field(default_factory=dict, repr=False)
    """The same as tokens."""
    mirostat: int = 0
    """1 or 2: after the temperature, mirostat of that version draws, and nothing else is applied but biases."""
    mirostat_tau: float = 5.0
    """The surprise it aims at, in bits."""
    mirostat_eta: float = 0.1
    """How fast it follows."""
    adaptive_target: float = -1.0
    """The probability that tokens drawn are to have on average, where `samplers` has adaptive_p; negative: off."""
    adaptive_decay: float = 0.9
    """How much of that average is kept with each token, 0 to 0.99."""
    seed: int | None = None
    """0 to 2^32 - 1; None: a random one, drawn for each answer."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """(token id, what is added to its logit); -inf bans the token."""
    samplers: tuple[str, ...] = DEFAULT_SAMPLERS
    """The chain, in order; one that is missing is not applied."""


_SOFT: Mapping[str, tuple[float, float]] = {
    "temperature": (0.0, math.inf),
    "top_k": (0, _INT_MAX),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "xtc_probability": (0.0, 1.0),
    "xtc_threshold": (0.0, 1.0),
    "mirostat": (0, 2),
    "adaptive_target": (-1.0, 1.0),
}
_HARD: Mapping[str, tuple[float, float]] = {
    "repeat_last_n": (0, _INT_MAX),
    "min_keep": (0, _INT_MAX),
    "dry_allowed_length": (0, _INT_MAX),
    "dry_penalty_last_n": (0, _INT_MAX),
    "adaptive_decay": (0.0, 0.99),
}
INTEGERS = ("top_k", "min_keep", "repeat_last_n", "dry_allowed_length", "dry_penalty_last_n", "mirostat")
NUMBERS = (
    "temperature",
    "top_p",
    "min_p",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "dynatemp_range",
    "dynatemp_exponent",
    "repeat_penalty",
    "frequency_penalty",
    "presence_penalty",
    "dry_multiplier",
    "dry_base",
    "mirostat_tau",
    "mirostat_eta",
    "adaptive_target",
    "adaptive_decay",
)


def limited(name: str, value: float) -> float:
    """`value` of the numeric field `name` within its soft limit. Raises ValueError, with the reason, beyond a hard
    one.
    """
    if name in _SOFT:
        low, high = _SOFT[name]
        return min(max(value, low), high)
    if name in _HARD:
        low, high = _HARD[name]
        if not low <= value <= high:
            raise ValueError(f"Value must be between {low} <= value <= {high}, but got {value}")
    elif name == "repeat_penalty" and not (0 < _single(value) < math.inf and _single(1 / value) < math.inf):
        raise ValueError("penalty_repeat must be finite and greater than 0")
    elif math.isinf(_single(value)):
        raise ValueError(f"Value must be finite in 32 bits, but got {value}")
    if name == "dry_base" and value < 1:
        return SamplingParams.dry_base
    return value


def _single(value: float) -> float:
    """`value` as the 32-bit number it is computed with."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def seed_from(value: int) -> int | None:
    """The seed a request means: 32 bits of it; -1 and 2^32 - 1 mean a random one."""
    seed = value & 0xFFFFFFFF
    return None if seed == RANDOM_SEED else seed


def samplers_from(value: str | Sequence[Any]) -> tuple[str, ...]:
    """A chain from sampler names (`top_k`, `top-k`, `topk`) or a string of llama-server's letters (`edskypmxta`).

    Raises ValueError for one that is not served.
    """
    chain = []
    for word in value:
        name = _LETTERS.get(word) if isinstance(value, str) else _sampler_name(word)
        if name is None:
            raise ValueError(f"unknown sampler {word!r}: expected some of {', '.join(SAMPLERS)}")
        chain.append(name)
    return tuple(chain)


def _sampler_name(word: Any) -> str | None:
    if not isinstance(word, str):
        return None
    name = word.lower().replace("-", "_")
    name = _ALIASES.get(name, name)
    return next((known for known in SAMPLERS if name in (known, known.replace("_", ""))), None)


_METADATA = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "penalty_last_n": "repeat_last_n",
    "penalty_repeat": "repeat_penalty",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}


def defaults_from_metadata(metadata: Mapping[str, Any]) -> SamplingParams:
    """The defaults a GGUF file brings in `general.sampling.*`, over the program's own.

    Raises ValueError naming the key when a value has the wrong type, is out of bounds, or asks for a sampler not
    served.
    """
    values: dict[str, Any] = {}
    for key, name in _METADATA.items():
        value = metadata.get(f"general.sampling.{key}")
        if value is not None:
            values[name] = _from_file(f"general.sampling.{key}", name, value)
    sequence = metadata.get("general.sampling.sequence")
    if isinstance(sequence, str) and sequence:
        try:
            values["samplers"] = samplers_from(sequence.split(";"))
        except ValueError as error:
            raise ValueError(f"general.sampling.sequence: {error}") from error
    elif not (sequence is None or isinstance(sequence, str)):
        raise ValueError("general.sampling.sequence: expected a string")
    return replace(SamplingParams(), **values)


def _from_file(key: str, name: str, value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or not math.isfinite(value)
    ):
        raise ValueError(f"{key}: expected a finite number, got {value!r}")
    try:
        return limited(name, int(value) if name in INTEGERS else float(value))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error
