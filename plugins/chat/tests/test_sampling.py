from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from golem_host.errors import InternalError
from golem_host.kernels.library import MAXIMA_BLOCK, load, why_missing
from golem_host_chat.sampling import Sampler
from golem_host_chat.sampling_filters import SamplingError
from golem_host_chat.sampling_params import DEFAULT_SAMPLERS, SamplingParams
from golem_host_chat.sampling_random import Mt19937
from golem_host_chat.scores import Scores

VOCABULARY = 500
PLAIN = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=1)
"""Nothing but the draw."""


def row(seed, size=VOCABULARY, spread=3.0):
    return (np.random.default_rng(seed).normal(size=size) * spread).astype(np.float32)


def scores(logits):
    """A pass's scores of one row."""
    blocks = range(0, len(logits), MAXIMA_BLOCK)
    maxima = np.array([[logits[first : first + MAXIMA_BLOCK].max() for first in blocks]], np.float32)
    return Scores(logits[None], maxima, [int(logits.argmax()) if np.isfinite(logits).all() else -1])


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


class Reference:
    """llama-server's chain as a loop over a list, and its draw; it shares only the generator with the product."""

    def __init__(self, params, prompt):
        self.params, self.window, self.random = params, list(prompt), Mt19937(params.seed)

    def sample(self, logits):
        params = self.params
        items = [[token, float(logit)] for token, logit in enumerate(logits)]
        for token, bias in params.logit_bias:
            items[token][1] += bias
        window = self.window[-params.repeat_last_n :] if params.repeat_last_n else []
        for item in items:
            count = window.count(item[0])
            if count:
                item[1] = item[1] * params.repeat_penalty if item[1] <= 0 else item[1] / params.repeat_penalty
                item[1] -= count * params.frequency_penalty + params.presence_penalty
        items.sort(key=lambda item: (-item[1], item[0]))
        if params.top_k:
            items = items[: params.top_k]
        weights = softmax(np.array([logit for _, logit in items]))
        if params.typical_p < 1:
            entropy = -(weights * np.log(weights)).sum()
            order = np.argsort(abs(-np.log(weights) - entropy), kind="stable")
            order = order[: int(np.searchsorted(np.cumsum(weights[order]), params.typical_p, side="right")) + 1]
            items = [items[place] for place in order]
            if params.top_p < 1:
                items.sort(key=lambda item: (-item[1], item[0]))
        if params.top_p < 1:
            weights = softmax(np.array([logit for _, logit in items]))
            items = items[: int(np.searchsorted(np.cumsum(weights), params.top_p)) + 1]
        if params.min_p:
            bound = max(logit for _, logit in items) + math.log(params.min_p)
            items = [item for item in items if item[1] >= bound]
        weights = softmax(np.array([logit for _, logit in items]) / params.temperature)
        share = self.random.uniform_double()
        return items[int(np.searchsorted(np.cumsum(weights), share))][0]

    def accept(self, token):
        self.window.append(token)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"temperature": 1.7, "top_k": 7},
        {"top_k": 0, "min_p": 0.0},
        {"top_k": 0, "top_p": 0.6, "temperature": 0.4},
        {"typical_p": 0.7},
        {"typical_p": 0.5, "top_k": 100, "top_p": 0.8},
        {"repeat_penalty": 1.3, "frequency_penalty": 0.2, "presence_penalty": 0.4},
        {"repeat_penalty": 1.3, "repeat_last_n": 5},
        {"repeat_penalty": 1.3, "repeat_last_n": 0},
        {"logit_bias": ((3, 6.0), (9, -8.0), (3, 1.0))},
    ],
)
def test_whole_chain_draws_what_a_plain_loop_draws(changes):
    params = replace(SamplingParams(seed=11), **changes)
    prompt = [3, 4, 5, 3, 9]
    sampler, reference = Sampler(params, vocab_size=VOCABULARY, prompt=prompt), Reference(params, prompt)
    for step in range(60):
        logits = row(step % 6)  # rows come back, so that penalties matter
        token = sampler.sample(scores(logits))
        assert token == reference.sample(logits), step
        sampler.accept(token)
        reference.accept(token)


def test_draws_follow_the_probabilities():
    logits = np.array([0.0, 1.0, 2.0, -1.0, 0.5, -math.log(40)], np.float32)
    sampler = Sampler(PLAIN, vocab_size=len(logits))
    draws = 6000
    counts = np.bincount([sampler.sample(scores(logits)) for _ in range(draws)], minlength=len(logits))
    expected = softmax(logits.astype(np.float64)) * draws
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 20.5  # the 0.1 % point of five degrees of freedom; the seed is fixed
    assert chi_square > 0.1  # and no more even than chance


def test_the_draw_is_the_first_token_whose_running_sum_reaches_the_share():
    logits = row(2, size=64)
    sampler, random = Sampler(PLAIN, vocab_size=64), Mt19937(1)
    running = np.cumsum(softmax(logits.astype(np.float64)))
    for _ in range(40):
        assert sampler.sample(scores(logits)) == np.searchsorted(running, random.uniform_double())


def test_every_draw_takes_one_number_even_with_one_candidate_left():
    logits = row(0)
    one, other = Sampler(PLAIN, vocab_size=VOCABULARY), Sampler(replace(PLAIN, top_k=1), vocab_size=VOCABULARY)
    one.sample(scores(logits))
    assert other.sample(scores(logits)) == logits.argmax()
    assert one._random.raw() == other._random.raw()


@pytest.mark.parametrize("changes", [{}, {"top_k": 0}, {"repeat_penalty": 1.2}, {"samplers": ("temperature", "top_k")}])
def test_temperature_zero_takes_the_best_token_and_the_first_of_equal_ones(changes):
    logits = row(4)
    logits[[40, 7, 90]] = 20
    params = replace(SamplingParams(temperature=0), **changes)
    assert Sampler(params, vocab_size=VOCABULARY).sample(scores(logits)) == 7


@pytest.mark.parametrize(
    "samplers", [DEFAULT_SAMPLERS, ("top_k", "penalties", "temperature"), ("penalties", "temperature")]
)
def test_temperature_zero_still_applies_penalties_and_biases(samplers):
    logits = np.array([5.0, 4.0, 3.0], np.float32)
    params = SamplingParams(temperature=0, repeat_penalty=1.5, logit_bias=((1, -2.0),), samplers=samplers)
    assert Sampler(params, vocab_size=3, prompt=[0]).sample(scores(logits)) == 0  # 3.33, 2, 3
    assert Sampler(replace(params, repeat_penalty=2.0), vocab_size=3, prompt=[0]).sample(scores(logits)) == 2


def test_temperature_zero_does_not_undo_filters_that_drop_the_best_token():
    logits = np.log(np.array([0.5, 0.3, 0.2], np.float32))
    params = SamplingParams(temperature=0, xtc_probability=1.0, xtc_threshold=0.15)
    assert Sampler(params, vocab_size=3).sample(scores(logits)) == 2


def test_dynamic_temperature_is_not_greedy_at_temperature_zero():
    params = replace(PLAIN, temperature=0.0, dynatemp_range=1.0)
    sampler = Sampler(params, vocab_size=4)
    assert len({sampler.sample(scores(np.zeros(4, np.float32))) for _ in range(60)}) == 4


def test_the_order_of_the_chain_is_the_requests():
    logits = np.array([3.0, 2.9, 2.8, 0.0], np.float32)
    penalized = SamplingParams(
        top_k=2, presence_penalty=5.0, temperature=0, samplers=("penalties", "top_k", "temperature")
    )
    assert Sampler(penalized, vocab_size=4, prompt=[0, 1]).sample(scores(logits)) == 2
    narrowed = replace(penalized, samplers=("top_k", "penalties", "temperature"))
    assert Sampler(narrowed, vocab_size=4, prompt=[0, 1]).sample(scores(logits)) == 0


def test_a_sampler_missing_from_the_chain_is_not_applied():
    params = SamplingParams(temperature=0, top_k=1, seed=3, samplers=())
    sampler = Sampler(params, vocab_size=4)
    assert len({sampler.sample(scores(np.zeros(4, np.float32))) for _ in range(60)}) == 4


def test_suppressed_and_banned_tokens_are_never_drawn():
    params = replace(PLAIN, logit_bias=((0, -math.inf), (1, 100.0)))
    sampler = Sampler(params, vocab_size=4, suppress=(1,))
    assert {sampler.sample(scores(np.zeros(4, np.float32))) for _ in range(60)} == {2, 3}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_tokens_the_model_has_no_output_for_may_be_biased_and_suppressed(temperature):
    """A vocabulary may be longer than the rows of the model."""
    params = replace(PLAIN, temperature=temperature, logit_bias=((0, 5.0), (4, -math.inf), (9, 100.0)))
    sampler = Sampler(params, vocab_size=4, suppress=(7,))
    assert sampler.sample(scores(np.array([0.0, 1.0, -90.0, -90.0], np.float32))) in (0, 1)


def test_the_window_of_the_penalties_moves_with_the_answer():
    params = SamplingParams(temperature=0, presence_penalty=10.0, repeat_last_n=2)
    sampler = Sampler(params, vocab_size=4, prompt=[3, 3, 0])
    logits = np.array([4.0, 3.0, 2.0, 1.0], np.float32)
    drawn = []
    for _ in range(5):
        drawn.append(sampler.sample(scores(logits)))
        sampler.accept(drawn[-1])
    assert drawn == [1, 2, 0, 1, 2]


def test_a_seed_repeats_and_the_seed_used_can_be_read():
    logits = row(8)
    first = Sampler(replace(PLAIN, seed=None), vocab_size=VOCABULARY)
    draws = [first.sample(scores(logits)) for _ in range(20)]
    again = Sampler(replace(PLAIN, seed=first.seed), vocab_size=VOCABULARY)
    assert [again.sample(scores(logits)) for _ in range(20)] == draws
    seeds = {Sampler(replace(PLAIN, seed=None), vocab_size=VOCABULARY).seed for _ in range(8)}
    assert len(seeds) > 1 and all(0 <= seed < 2**32 for seed in seeds)


@pytest.mark.parametrize("changes", [{}, {"top_k": 0}, {"temperature": 0.0}, {"typical_p": 0.5}, {"top_n_sigma": 1.0}])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_are_an_error_of_this_request(changes, bad):
    logits = row(1)
    logits[123] = bad
    sampler = Sampler(replace(SamplingParams(seed=1), **changes), vocab_size=VOCABULARY)
    with pytest.raises(InternalError, match="not finite"):
        sampler.sample(scores(logits))
    assert 0 <= sampler.sample(scores(row(1))) < VOCABULARY


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_banning_every_token_is_an_error(temperature):
    params = SamplingParams(temperature=temperature, logit_bias=((0, -math.inf), (1, -math.inf)))
    with pytest.raises(SamplingError, match="banned"):
        Sampler(params, vocab_size=2).sample(scores(np.zeros(2, np.float32)))


def test_biases_that_add_up_to_infinity_are_an_error():
    params = SamplingParams(logit_bias=((0, 2.9e38), (0, 2.9e38)))
    with pytest.raises(SamplingError, match="out of range"):
        Sampler(params, vocab_size=2).sample(scores(np.zeros(2, np.float32)))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_penalties_that_overflow_are_an_error(temperature):
    params = SamplingParams(temperature=temperature, frequency_penalty=-3e38)
    with pytest.raises(SamplingError, match="out of range"):
        Sampler(params, vocab_size=2, prompt=[0, 0]).sample(scores(np.ones(2, np.float32)))


@pytest.mark.parametrize(
    "changes",
    [{"mirostat": 1}, {"mirostat": 2}, {"mirostat": 2, "mirostat_tau": -3.0}, {"dry_multiplier": 1.0, "dry_base": 1.0}],
)
def test_temperature_zero_takes_the_best_token_with_any_sampler(changes):
    logits = row(4)
    params = replace(SamplingParams(temperature=0.0, dynatemp_range=2.0 * ("mirostat" in changes)), **changes)
    assert Sampler(params, vocab_size=VOCABULARY).sample(scores(logits)) == logits.argmax()


def test_mirostat_applies_no_other_sampler_but_biases():
    logits = np.array([1.0, 3.0, 0.0, -60.0], np.float32)
    params = replace(PLAIN, mirostat=2, mirostat_tau=20.0, top_k=1, presence_penalty=1e9, logit_bias=((1, -1e9),))
    sampler = Sampler(params, vocab_size=4, prompt=[0, 2])
    assert {sampler.sample(scores(logits)) for _ in range(60)} == {0, 2}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("tau", [1.0, 4.0])
def test_mirostat_keeps_the_surprise_near_its_aim(version, tau):
    params = replace(PLAIN, mirostat=version, mirostat_tau=tau, mirostat_eta=0.1)
    sampler = Sampler(params, vocab_size=VOCABULARY)
    surprises = []
    for step in range(400):
        logits = row(step % 7)
        surprises.append(-np.log2(softmax(logits.astype(np.float64))[sampler.sample(scores(logits))]))
    # The tokens that are left are drawn more often than the whole vocabulary's share says: by less than two bits here.
    assert tau - 0.5 < np.mean(surprises[50:]) < tau + 2


def test_adaptive_p_draws_tokens_whose_probabilities_average_the_target():
    probabilities = np.array([0.5, 0.25, 0.15, 0.1])
    logits = np.log(probabilities).astype(np.float32)
    for target in (0.2, 0.3, 0.4):
        params = replace(PLAIN, adaptive_target=target, samplers=("adaptive_p",))
        sampler = Sampler(params, vocab_size=len(logits))
        drawn = [sampler.sample(scores(logits)) for _ in range(400)]
        assert abs(probabilities[drawn].mean() - target) < 0.05


@pytest.mark.parametrize("temperature", [1e-45, 1e-30, 1e38])
def test_extreme_temperatures_draw(temperature):
    logits = row(5)
    token = Sampler(replace(PLAIN, temperature=temperature), vocab_size=VOCABULARY).sample(scores(logits))
    assert token == logits.argmax() or temperature > 1


@pytest.mark.parametrize("writable", [True, False])
def test_the_callers_logits_stay_as_they_were(writable):
    logits = row(6)
    logits.setflags(write=writable)
    before = logits.copy()
    params = SamplingParams(
        repeat_penalty=1.1,
        logit_bias=((1, 2.0),),
        top_n_sigma=1.0,
        typical_p=0.9,
        dynatemp_range=0.2,
        xtc_probability=0.5,
    )
    few = SamplingParams(repeat_penalty=1.1, logit_bias=((1, 2.0), (7, -math.inf)))
    for changes in (params, replace(params, top_k=0), few, replace(few, temperature=0.0)):
        Sampler(changes, vocab_size=VOCABULARY, prompt=[1, 2]).sample(scores(logits))
        assert np.array_equal(logits, before)
    overflow = SamplingParams(frequency_penalty=-3e38, logit_bias=((1, 2.0),))
    with pytest.raises(SamplingError):
        Sampler(overflow, vocab_size=VOCABULARY, prompt=[1, 1]).sample(scores(logits))
    assert np.array_equal(logits, before)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"top_k": 1},
        {"top_k": 1000, "temperature": 3.0},
        {"top_p": 1.0, "min_p": 0.0},
        {"top_p": 0.3, "min_keep": 3},
        {"min_p": 0.9, "min_keep": 4, "temperature": 1e-3},
        {"logit_bias": ((5, -math.inf), (9, 4.0))},
        {"samplers": ("top_k", "min_p", "temperature")},
    ],
)
def test_the_native_chain_draws_what_the_filters_do(monkeypatch, changes):
    """The two differ in the last places of float32 probabilities: no row here has a bound that close."""
    if load() is None:
        pytest.skip(why_missing())
    params = replace(SamplingParams(seed=11), **changes)
    native = Sampler(params, vocab_size=3000)
    monkeypatch.setattr("golem_host_chat.sampling.native_draw", lambda **_: None)
    filtered = Sampler(params, vocab_size=3000)
    assert native._native is not None and filtered._native is None
    for seed in range(400):
        logits = row(seed, size=3000, spread=1.0 + seed % 5)
        assert native.sample(scores(logits)) == filtered.sample(scores(logits)), seed


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("bias", [-math.inf, -2.0, 2.0])
def test_biased_tokens_of_a_large_vocabulary(temperature, bias):
    """The likeliest of all among them: what the pass found is then not the largest, nor its block's maximum."""
    logits = row(4, size=70_000)
    best = np.argsort(-logits)[[0, 1, 5]]
    changed = logits.copy()
    changed[best] += np.float32(bias)
    params = SamplingParams(temperature=temperature, seed=3)
    biased = replace(params, logit_bias=tuple((int(token), bias) for token in best))
    one, other = Sampler(biased, vocab_size=len(logits)), Sampler(params, vocab_size=len(logits))
    draws = [one.sample(scores(logits)) for _ in range(50)]
    assert draws == [other.sample(scores(changed) if math.isfinite(bias) else banned(changed)) for _ in range(50)]


def banned(logits):
    """Scores of logits of which some are minus infinity, as if the pass had not minded."""
    maxima = scores(np.nan_to_num(logits, neginf=-3e38)).maxima
    return Scores(logits[None], maxima, [int(logits.argmax())])
