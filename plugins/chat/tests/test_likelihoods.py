from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from golem_host.kernels.library import MAXIMA_BLOCK
from golem_host_chat.likelihoods import Probabilities, of_model
from golem_host_chat.sampling import Sampler
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.scores import Scores

WIDTH = 3000


def scores(*rows):
    logits = np.array(rows, np.float32)
    maxima = [[row[at : at + MAXIMA_BLOCK].max() for at in range(0, len(row), MAXIMA_BLOCK)] for row in logits]
    return Scores(logits, np.array(maxima, np.float32), [int(row.argmax()) for row in logits])


def row(seed, spread=3.0, width=WIDTH):
    return (np.random.default_rng(seed).normal(size=width) * spread).astype(np.float32)


def log_softmax(logits):
    logits = logits.astype(np.float64)
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


@pytest.mark.parametrize("top", [0, 1, 20, 4000])
def test_the_models_own_probabilities(top):
    both = scores(row(1), row(2))
    for index, logits in enumerate(both.logits):
        expected = log_softmax(logits)
        found = of_model(both, index, 77, top)
        # float32's last place of a number about 10, and the exponentials'.
        assert found.value == pytest.approx(expected[77], abs=2e-6)
        order = np.argsort(-logits, kind="stable")[:top]
        assert [id for id, _ in found.top] == order.tolist()
        np.testing.assert_allclose([value for _, value in found.top], expected[order], atol=2e-6)


def test_unlikely_tokens_have_finite_logarithms():
    logits = np.array([3e38, -3e38, 0.0], np.float32)
    found = of_model(scores(logits), 0, 1, 3)
    assert found.value == -np.finfo(np.float32).max
    assert found.top[0] == (0, 0.0) and all(np.isfinite(value) for _, value in found.top)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"temperature": 0.0},
        {"temperature": 0.0, "repeat_penalty": 1.5},
        {"top_k": 0, "typical_p": 0.8},
        {"logit_bias": ((5, 4.0), (6, -np.inf))},
        {"mirostat": 2},
        {"xtc_probability": 0.5},
        {"samplers": ("top_k", "adaptive_p"), "adaptive_target": 0.3},
    ],
)
def test_telling_them_changes_no_draw(changes, after):
    params = replace(SamplingParams(seed=5), **changes)
    plain = Sampler(params, vocab_size=WIDTH, prompt=[1, 2])
    telling = Sampler(params, vocab_size=WIDTH, prompt=[1, 2], wanted=Probabilities(5, after))
    for step in range(60):
        one = scores(row(step % 7))
        before = one.logits.copy()
        token = telling.sample(one)
        assert np.array_equal(one.logits, before)
        assert token == plain.sample(one)
        telling.accept(token)
        plain.accept(token)
        found = telling.likelihood
        assert found is not None
        if not after:
            assert found == of_model(one, 0, token, 5)
            continue
        values = [value for _, value in found.top]
        assert values == sorted(values, reverse=True) and 0 < found.value <= 1 and min(values) > 0
        assert dict(found.top).get(token, found.value) == found.value


def test_probabilities_of_what_sampling_leaves():
    logits = np.log(np.array([0.4, 0.3, 0.2, 0.1], np.float32))
    params = SamplingParams(temperature=0.5, top_k=3, top_p=1.0, min_p=0.0, seed=1)
    sampler = Sampler(params, vocab_size=4, wanted=Probabilities(4, after=True))
    token = sampler.sample(scores(logits))
    squares = np.array([0.16, 0.09, 0.04]) / 0.29
    assert sampler.likelihood is not None
    assert [id for id, _ in sampler.likelihood.top] == [0, 1, 2]
    np.testing.assert_allclose([value for _, value in sampler.likelihood.top], squares, rtol=1e-5)
    assert sampler.likelihood.value == pytest.approx(squares[token], rel=1e-5)
    greedy = Sampler(replace(params, temperature=0.0), vocab_size=4, wanted=Probabilities(4, after=True))
    assert greedy.sample(scores(logits)) == 0
    assert greedy.likelihood is not None and greedy.likelihood.top == ((0, 1.0),)
