"""Sampling fields of a request body (or of Ollama's `options`), over the model's defaults."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from golem_host.http.fields import Fields, kind_of
from golem_host_chat.sampling_dry import MAX_BREAKER_BYTES, Restarts
from golem_host_chat.sampling_params import INTEGERS, NUMBERS, SamplingParams, limited, samplers_from, seed_from

MAX_BREAKERS = 32
"""Each is looked for in the texts of the whole vocabulary."""


def read_sampling(
    fields: Fields,
    defaults: SamplingParams,
    *,
    vocab_size: int,
    tokenize: Callable[[str], Sequence[int]],
    restarts: Callable[[tuple[str, ...]], Restarts],
) -> SamplingParams:
    """The sampling `fields` ask for; what they leave out (or set to null) stays as in `defaults`.

    `tokenize` turns text into token ids without special tokens, for `logit_bias` by text; `restarts` finds the token
    sequences that dry's breakers are in. Raises `BadRequest` naming the field for a wrong type, a value beyond a hard
    limit, a token that does not exist and a sampler that is not served.
    """
    values: dict[str, Any] = {}
    for name in (*INTEGERS, *NUMBERS):
        value = fields.integer(name) if name in INTEGERS else fields.number(name)
        if value is None:
            continue
        try:
            values[name] = limited(name, value)
        except ValueError as error:
            raise fields.fault(name, str(error)) from error
    seed = fields.integer("seed")
    if seed is not None:
        values["seed"] = seed_from(seed)
    if fields.has("samplers"):
        values["samplers"] = _samplers(fields)
    if fields.has("logit_bias"):
        values["logit_bias"] = _logit_bias(fields, vocab_size, tokenize)
    if fields.has("dry_sequence_breakers"):
        values["dry_sequence_breakers"] = _breakers(fields)
    params = replace(defaults, **values)
    if values.get("adaptive_target", -1) >= 0 and ("adaptive_p" not in params.samplers or params.mirostat):
        raise fields.fault("adaptive_target", "it steers the sampler adaptive_p, which 'samplers' does not ask for")
    if params.dry_multiplier and params.dry_penalty_last_n and "dry" in params.samplers and not params.mirostat:
        return replace(params, dry_restarts=restarts(params.dry_sequence_breakers))
    return params


def _breakers(fields: Fields) -> tuple[str, ...]:
    value = fields.value("dry_sequence_breakers")
    name = "dry_sequence_breakers"
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise fields.fault(name, "dry_sequence_breakers must be a non-empty array of strings")
    if len(value) > MAX_BREAKERS:
        raise fields.fault(name, f"{len(value)} texts are given; at most {MAX_BREAKERS} are taken")
    if any(len(each.encode(errors="replace")) > MAX_BREAKER_BYTES for each in value):
        raise fields.fault(name, f"a text has more than {MAX_BREAKER_BYTES} bytes")
    return tuple(value)


def _samplers(fields: Fields) -> tuple[str, ...]:
    value = fields.value("samplers")
    if not isinstance(value, str | list):
        raise fields.fault("samplers", f"expected an array of names or a string of letters, got {kind_of(value)}")
    try:
        return samplers_from(value)
    except ValueError as error:
        raise fields.fault("samplers", str(error)) from error


def _logit_bias(
    fields: Fields, vocab_size: int, tokenize: Callable[[str], Sequence[int]]
) -> tuple[tuple[int, float], ...]:
    """`{"id or text": bias}` or `[[id or "text", bias]]`; a text biases each of its tokens, `false` bans."""
    value = fields.value("logit_bias")
    if isinstance(value, dict):
        pairs = [(int(key) if re.fullmatch(r"-?[0-9]{1,18}", key) else key, bias) for key, bias in value.items()]
    elif isinstance(value, list):
        pairs = []
        for pair in value:
            if not isinstance(pair, list) or len(pair) != 2:
                raise fields.fault("logit_bias", "expected pairs of a token and its bias")
            pairs.append((pair[0], pair[1]))
    else:
        raise fields.fault("logit_bias", f"expected an object or an array, got {kind_of(value)}")
    result: list[tuple[int, float]] = []
    for token, bias in pairs:
        result += [(token_id, _bias(fields, bias)) for token_id in _token_ids(fields, token, vocab_size, tokenize)]
    return tuple(result)


def _token_ids(fields: Fields, token: Any, vocab_size: int, tokenize: Callable[[str], Sequence[int]]) -> Sequence[int]:
    if isinstance(token, str):
        ids = tokenize(token)
        if not ids:
            raise fields.fault("logit_bias", f"the text {token!r} has no tokens")
        return ids
    if isinstance(token, bool) or not isinstance(token, int):
        raise fields.fault("logit_bias", f"expected a token id or a text, got {kind_of(token)}")
    if not 0 <= token < vocab_size:
        raise fields.fault("logit_bias", f"there is no token {token}: ids go from 0 to {vocab_size - 1}")
    return [token]


def _bias(fields: Fields, bias: Any) -> float:
    if bias is False:
        return -math.inf
    if isinstance(bias, bool) or not isinstance(bias, int | float):
        raise fields.fault("logit_bias", f"expected a number or false as bias, got {kind_of(bias)}")
    if not abs(bias) < 3e38:
        raise fields.fault("logit_bias", "expected a finite number as bias")
    return float(bias)
