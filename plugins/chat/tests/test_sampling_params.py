from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields
from golem_host_chat.sampling_params import (
    DEFAULT_SAMPLERS,
    INTEGERS,
    NUMBERS,
    SamplingParams,
    defaults_from_metadata,
    samplers_from,
)
from golem_host_chat.sampling_request import read_sampling

WORDS = {"Hello": [11], " there": [12, 13], "12": [7]}


def read(body, defaults=None, prefix=""):
    return read_sampling(
        Fields(body, prefix),
        defaults or SamplingParams(),
        vocab_size=100,
        tokenize=lambda text: WORDS.get(text, []),
        restarts=lambda breakers: {len(breakers): [()]},
    )


def refused(body, prefix=""):
    with pytest.raises(BadRequest) as caught:
        read(body, prefix=prefix)
    return caught.value


def test_defaults_are_llama_servers():
    params = SamplingParams()
    assert (params.temperature, params.top_k, params.top_p, params.min_p) == (0.8, 40, 0.95, 0.05)
    assert (params.repeat_last_n, params.repeat_penalty, params.frequency_penalty, params.presence_penalty) == (
        64,
        1,
        0,
        0,
    )
    assert (params.typical_p, params.top_n_sigma, params.xtc_probability, params.xtc_threshold) == (1, -1, 0, 0.1)
    assert params.seed is None


def test_a_request_without_sampling_fields_or_with_nulls_keeps_the_models_defaults():
    defaults = SamplingParams(temperature=0.3, top_k=7, seed=5)
    assert read({}, defaults) == defaults
    nulls = dict.fromkeys([*INTEGERS, *NUMBERS, "seed", "logit_bias", "samplers", "dry_sequence_breakers"])
    assert read(nulls, defaults) == defaults


def test_every_numeric_field_is_read():
    body = {name: 2 for name in INTEGERS} | {name: 0.25 for name in NUMBERS} | {"dry_base": 1.25}
    body["mirostat"] = 0
    params = read(body | {"samplers": ["adaptive_p"]})
    assert params.samplers == ("adaptive_p",)
    assert {name: getattr(params, name) for name in body} == body
    assert all(isinstance(getattr(params, name), int) for name in INTEGERS)


@pytest.mark.parametrize(
    ("name", "given_value", "kept"),
    [
        ("temperature", -1, 0.0),
        ("top_k", -5, 0),
        ("top_k", 2**40, 2**31 - 1),
        ("top_p", 1.5, 1.0),
        ("top_p", -1, 0.0),
        ("min_p", 7, 1.0),
        ("xtc_probability", 2, 1.0),
        ("xtc_threshold", -2, 0.0),
        ("mirostat", -1, 0),
        ("mirostat", 5, 2),
        ("dry_base", 0.5, 1.75),
        ("adaptive_target", -7, -1.0),
    ],
)
def test_soft_limits_move_the_value(name, given_value, kept):
    assert getattr(read({name: given_value}), name) == kept


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"repeat_last_n": -1},
            "Field 'repeat_last_n': Value must be between 0 <= value <= 2147483647, but got -1",
        ),
        ({"min_keep": -2}, "Field 'min_keep': Value must be between 0 <= value <= 2147483647, but got -2"),
        ({"repeat_penalty": 0}, "Field 'repeat_penalty': penalty_repeat must be finite and greater than 0"),
        ({"repeat_penalty": -1.1}, "Field 'repeat_penalty': penalty_repeat must be finite and greater than 0"),
        ({"repeat_penalty": 1e-40}, "Field 'repeat_penalty': penalty_repeat must be finite and greater than 0"),
        ({"repeat_penalty": 1e39}, "Field 'repeat_penalty': penalty_repeat must be finite and greater than 0"),
        ({"frequency_penalty": 1e39}, "Field 'frequency_penalty': Value must be finite in 32 bits, but got 1e+39"),
        ({"temperature": "hot"}, "Field 'temperature': expected a number, got a string"),
        ({"top_k": 1.5}, "Field 'top_k': expected an integer, got a number"),
        ({"seed": "1"}, "Field 'seed': expected an integer, got a string"),
        ({"samplers": ["top_k", "infill"]}, "Field 'samplers': unknown sampler 'infill'"),
        ({"samplers": "kz"}, "Field 'samplers': unknown sampler 'z'"),
        ({"samplers": 3}, "Field 'samplers': expected an array of names or a string of letters, got a number"),
        ({"mirostat_tau": 1e39}, "Field 'mirostat_tau': Value must be finite in 32 bits, but got 1e+39"),
        ({"dry_allowed_length": -1}, "Field 'dry_allowed_length': Value must be between 0 <= value <= 2147483647"),
        ({"adaptive_decay": 1.0}, "Field 'adaptive_decay': Value must be between 0.0 <= value <= 0.99, but got 1.0"),
        ({"dry_sequence_breakers": []}, "Field 'dry_sequence_breakers': dry_sequence_breakers must be a non-empty"),
        ({"dry_sequence_breakers": "x"}, "Field 'dry_sequence_breakers': dry_sequence_breakers must be a non-empty"),
        ({"dry_sequence_breakers": ["x", 1]}, "Field 'dry_sequence_breakers': dry_sequence_breakers must be"),
        ({"dry_sequence_breakers": ["x" * 41]}, "Field 'dry_sequence_breakers': a text has more than 40 bytes"),
        ({"dry_sequence_breakers": ["x"] * 33}, "Field 'dry_sequence_breakers': 33 texts are given; at most 32"),
        ({"adaptive_target": 0.5}, "Field 'adaptive_target': it steers the sampler adaptive_p, which 'samplers' does"),
    ],
)
def test_hard_limits_wrong_types_and_unserved_samplers_are_refused_by_name(body, message):
    error = refused(body)
    assert error.message.startswith(message)
    assert error.param == next(iter(body))


def test_errors_carry_the_prefix_of_ollamas_options():
    error = refused({"repeat_last_n": -1}, prefix="options.")
    assert error.message.startswith("Field 'options.repeat_last_n': ")
    assert error.param == "options.repeat_last_n"


def test_values_that_turn_samplers_off_are_the_defaults():
    assert read({"mirostat": 0, "dry_multiplier": 0.0, "adaptive_target": -1.0}) == SamplingParams()


def test_breakers_are_looked_up_only_where_dry_applies():
    breakers = ["a", "b"]
    params = read({"dry_multiplier": 0.8, "dry_sequence_breakers": breakers})
    assert params.dry_sequence_breakers == ("a", "b")
    assert params.dry_restarts == {2: [()]}
    assert read({"dry_multiplier": 0.8}).dry_restarts == {4: [()]}
    for off in ({"dry_multiplier": 0}, {"samplers": ["top_k"]}, {"mirostat": 2}, {"dry_penalty_last_n": 0}):
        assert not read({"dry_multiplier": 0.8, "dry_sequence_breakers": breakers} | off).dry_restarts


@pytest.mark.parametrize(
    ("seed", "kept"),
    [(0, 0), (42, 42), (-1, None), (2**32 - 1, None), (2**32 + 3, 3), (2**64 - 1, None), (-2, 2**32 - 2)],
)
def test_seeds_keep_32_bits(seed, kept):
    assert read({"seed": seed}, SamplingParams(seed=9)).seed == kept


@pytest.mark.parametrize(
    ("value", "chain"),
    [
        (["top_k", "temperature"], ("top_k", "temperature")),
        (["top-k", "TOPP", "typ", "temp", "nucleus"], ("top_k", "top_p", "typ_p", "temperature", "top_p")),
        ("edskypmxt", DEFAULT_SAMPLERS),
        ("kat", ("top_k", "adaptive_p", "temperature")),
        ([], ()),
    ],
)
def test_sampler_names_and_letters(value, chain):
    assert samplers_from(value) == chain
    assert read({"samplers": value}).samplers == chain


def test_logit_bias_by_id_and_by_text():
    assert read({"logit_bias": {"5": 2, " there": -1.5, "Hello": False}}).logit_bias == (
        (5, 2.0),
        (12, -1.5),
        (13, -1.5),
        (11, -math.inf),
    )
    # In an array a string is always a text, in an object digits are an id.
    assert read({"logit_bias": [[5, 2], ["12", 1]]}).logit_bias == ((5, 2.0), (7, 1.0))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"100": 1}, "there is no token 100: ids go from 0 to 99"),
        ({"-1": 1}, "there is no token -1"),
        ({"nowhere": 1}, "the text 'nowhere' has no tokens"),
        ({"5": "much"}, "expected a number or false as bias, got a string"),
        ({"5": True}, "expected a number or false as bias, got a boolean"),
        ({"5": None}, "expected a number or false as bias, got null"),
        ({"5": 1e39}, "expected a finite number as bias"),
        ({"5": math.nan}, "expected a finite number as bias"),
        ([[5]], "expected pairs of a token and its bias"),
        ([5], "expected pairs of a token and its bias"),
        ([[5.5, 1]], "expected a token id or a text, got a number"),
        ([[True, 1]], "expected a token id or a text, got a boolean"),
        ("5:1", "expected an object or an array, got a string"),
    ],
)
def test_logit_bias_that_cannot_be_honoured_is_refused(value, message):
    assert refused({"logit_bias": value}).message.startswith(f"Field 'logit_bias': {message}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
NAMES = [*INTEGERS, *NUMBERS, "seed", "samplers", "logit_bias", "dry_sequence_breakers"]


@given(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4))
def test_any_json_gives_parameters_within_limits_or_a_refusal(body):
    try:
        params = read(body)
    except BadRequest as error:
        assert error.param in body
        return
    assert params.temperature >= 0 and params.top_k >= 0 and params.repeat_last_n >= 0 and params.min_keep >= 0
    assert 0 <= params.top_p <= 1 and 0 <= params.min_p <= 1
    assert all(math.isfinite(getattr(params, name)) for name in NUMBERS)
    assert params.seed is None or 0 <= params.seed < 2**32 - 1
    assert all(0 <= token < 100 for token, _ in params.logit_bias)


def test_the_file_brings_its_own_defaults():
    metadata = {
        "general.sampling.temp": 1.0,
        "general.sampling.top_k": 64,
        "general.sampling.top_p": 0.9,
        "general.sampling.min_p": 0.0,
        "general.sampling.xtc_probability": 0.5,
        "general.sampling.xtc_threshold": 0.2,
        "general.sampling.penalty_last_n": 128,
        "general.sampling.penalty_repeat": 1.05,
        "general.sampling.sequence": "top_k;temperature",
        "general.sampling.mirostat": 2,
        "general.sampling.mirostat_tau": 4.0,
        "general.sampling.mirostat_eta": 0.2,
        "general.name": "x",
    }
    assert defaults_from_metadata(metadata) == SamplingParams(
        temperature=1.0,
        top_k=64,
        top_p=0.9,
        min_p=0.0,
        xtc_probability=0.5,
        xtc_threshold=0.2,
        repeat_last_n=128,
        repeat_penalty=1.05,
        mirostat=2,
        mirostat_tau=4.0,
        mirostat_eta=0.2,
        samplers=("top_k", "temperature"),
    )
    assert defaults_from_metadata({}) == SamplingParams()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temp", "warm"),
        ("temp", math.nan),
        ("top_k", [40]),
        ("top_k", True),
        ("penalty_repeat", 0.0),
        ("penalty_last_n", -1),
        ("sequence", "top_k;infill"),
        ("sequence", 3),
        ("sequence", np.array([1, 2])),
        ("mirostat", True),
        ("mirostat", "2"),
        ("mirostat_tau", "low"),
        ("mirostat", np.array([0, 0])),
    ],
)
def test_a_file_with_defaults_that_cannot_be_honoured_is_an_error_naming_the_key(key, value):
    with pytest.raises(ValueError, match=f"general.sampling.{key}: "):
        defaults_from_metadata({f"general.sampling.{key}": value})
