"""Samplers draw what llama.cpp's own draw, over the vocabularies it publishes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from golem_host.kernels.library import MAXIMA_BLOCK
from golem_host.text import tokenizer_from_gguf
from golem_host.weights import open_gguf
from golem_host_chat.sampling import Sampler
from golem_host_chat.sampling_dry import Dry, DryRules, RestartFinder
from golem_host_chat.sampling_filters import Candidates
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.scores import Scores

pytestmark = pytest.mark.oracle

SEED = 11
PLAIN = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=SEED)
BREAKERS = ("\n", ":", '"', "*")


@cache
def tokenizer(path):
    return tokenizer_from_gguf(open_gguf(path))


def logits_of(width, repeat, spread):
    """The oracle's rows."""
    return (np.random.default_rng(3).normal(size=(repeat, width)) * spread).astype(np.float32)


def scores(logits):
    maxima = np.array([[logits[at : at + MAXIMA_BLOCK].max() for at in range(0, len(logits), MAXIMA_BLOCK)]])
    return Scores(logits[None], maxima.astype(np.float32), [int(logits.argmax())])


def draw(params, path, samplers, oracle, *, prompt=(), rows=120, repeat=3, spread=4.0):
    """What this program and what llama.cpp draws."""
    width = len(tokenizer(path).vocab)
    sampler = Sampler(params, vocab_size=width, prompt=list(prompt))
    logits = logits_of(width, repeat, spread)
    drawn = []
    for row in range(rows):
        drawn.append(sampler.sample(scores(logits[row % repeat])))
        sampler.accept(drawn[-1])
    answer = oracle.samplers(
        path, samplers=samplers, prompt=list(prompt), rows=rows, seed=3, repeat=repeat, spread=spread
    )
    return drawn, answer["tokens"]


@pytest.fixture
def spm(llama_source):
    return llama_source / "models" / "ggml-vocab-llama-spm.gguf"


@pytest.mark.parametrize("tau", [2.0, 5.0])
@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_mirostat(spm, oracle, tau, temperature):
    params = replace(PLAIN, mirostat=1, mirostat_tau=tau, temperature=temperature)
    width = len(tokenizer(spm).vocab)
    samplers = [["temp", [temperature]], ["mirostat", [width, SEED, tau, 0.1, 100]]]
    ours, theirs = draw(params, spm, samplers, oracle)
    assert ours == theirs
    assert len(set(ours)) > 5


@pytest.mark.parametrize("tau", [2.0, 5.0])
@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_mirostat_two(spm, oracle, tau, temperature):
    params = replace(PLAIN, mirostat=2, mirostat_tau=tau, mirostat_eta=0.2, temperature=temperature)
    ours, theirs = draw(params, spm, [["temp", [temperature]], ["mirostat_v2", [SEED, tau, 0.2]]], oracle)
    assert ours == theirs
    assert len(set(ours)) > 5


@pytest.mark.parametrize("target", [-1.0, 0.0, 0.3, 0.9])
def test_adaptive_probability(spm, oracle, target):
    params = replace(
        PLAIN, top_k=40, adaptive_target=target, adaptive_decay=0.8, samplers=("top_k", "adaptive_p", "temperature")
    )
    samplers = [["top_k", [40]], ["temp_ext", [1.0, 0.0, 1.0]], ["adaptive_p", [target, 0.8, SEED]]]
    ours, theirs = draw(params, spm, samplers, oracle)
    assert ours == theirs
    assert len(set(ours)) > 5


def test_dynamic_temperature(spm, oracle):
    params = replace(PLAIN, top_k=60, temperature=0.9, dynatemp_range=0.5, dynatemp_exponent=1.3)
    samplers = [["top_k", [60]], ["temp_ext", [0.9, 0.5, 1.3]], ["dist", [SEED]]]
    ours, theirs = draw(params, spm, samplers, oracle)
    assert ours == theirs
    assert len(set(ours)) > 5


def test_an_order_of_the_requests_own(spm, oracle):
    params = replace(
        PLAIN,
        temperature=0.7,
        top_k=50,
        min_p=0.02,
        xtc_probability=0.5,
        xtc_threshold=0.05,
        repeat_penalty=1.2,
        samplers=("temperature", "min_p", "top_k", "xtc", "penalties"),
    )
    width = len(tokenizer(spm).vocab)
    samplers = [
        ["temp_ext", [0.7, 0.0, 1.0]],
        ["min_p", [0.02, 0]],
        ["top_k", [50]],
        ["xtc", [0.5, 0.05, 0, SEED]],
        ["penalties", [width, 64, 1.2, 0.0, 0.0]],
        ["dist", [SEED]],
    ]
    ours, theirs = draw(params, spm, samplers, oracle)
    assert ours == theirs


@pytest.mark.parametrize("vocabulary", ["llama-spm", "llama-bpe", "qwen2"])
@pytest.mark.parametrize(
    ("multiplier", "base", "allowed", "last_n", "breakers"),
    [
        (0.8, 1.75, 2, 64, BREAKERS),
        (2.0, 1.1, 1, 20, BREAKERS),
        (0.7, 1.0, 0, 500, (" ",)),
        (5.0, 3.0, 2, 500, ("q", "the\n", "\n\n", "abc ")),
        (1.0, 2.0, 1, 500, ("unheard of",)),
    ],
)
def test_dry(llama_source, oracle, vocabulary, multiplier, base, allowed, last_n, breakers):
    """What it takes off each logit, along a text full of repetitions and breakers."""
    path = llama_source / "models" / f"ggml-vocab-{vocabulary}.gguf"
    words = tokenizer(path)
    texts = ["one two three four: ", "the\nthe cat ab", 'she said "one two three ', "*four* the\n\nthe cat abc cat "]
    text = "".join(texts[pick] for pick in np.random.default_rng(7).integers(len(texts), size=60))
    tokens = words.encode(text, add_special=False)
    prompt, follow = tokens[:-12], tokens[-12:]
    dry = Dry(DryRules(multiplier, base, allowed, last_n, RestartFinder(words)(breakers)), prompt)
    [logits] = logits_of(len(words.vocab), 1, 1.0)
    changed = []
    for token in follow:
        candidates = Candidates(logits.copy())
        dry(candidates)
        changed.append(candidates.logits)
        dry.accept(token)
    theirs = oracle.samplers(
        path,
        samplers=[["dry", [multiplier, base, allowed, last_n, list(breakers)]]],
        prompt=prompt,
        rows=len(follow),
        seed=3,
        repeat=1,
        spread=1.0,
        follow=follow,
    )["logits"]
    assert np.array_equal(np.array(changed), theirs)
    assert (theirs != logits).any(axis=1).sum() > 1
