"""DRY against the plain meaning of its rule; test_sampling_llama_cpp.py compares it with llama.cpp's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.kernels.library import MAXIMA_BLOCK
from golem_host_chat.sampling import Sampler
from golem_host_chat.sampling_dry import Dry, DryRules
from golem_host_chat.sampling_filters import Candidates
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.scores import Scores

WIDTH = 6
LOGITS = np.zeros(WIDTH, np.float32)


def changed(dry, ids=None):
    candidates = Candidates(LOGITS.copy())
    if ids is not None:
        candidates.take(np.array(ids))
    dry(candidates)
    return candidates.logits.tolist()


def expected(rules, tokens):
    """Every earlier copy of every end of the text, looked for one by one."""
    window = tokens[-rules.last_n :]
    reach = len(window)
    for at in range(len(window) - 1, -1, -1):
        tails = [tail for tail in rules.restarts.get(window[at], ()) if window[at + 1 :][: len(tail)] == list(tail)]
        if tails:
            reach = len(window) - 1 - at - max(map(len, tails))
            break
    result = LOGITS.copy()
    if len(window) <= rules.allowed or reach < rules.allowed:
        return result.tolist()
    for token in set(window):
        lengths = []
        for at in range(1, len(window)):
            if window[at] == token:
                length = 0
                while length < min(at, reach) and window[at - 1 - length] == window[-1 - length]:
                    length += 1
                lengths.append(length)
        longest = max(lengths, default=0)
        if lengths and longest >= rules.allowed and () not in rules.restarts.get(token, ()):
            result[token] -= rules.multiplier * rules.base ** (longest - rules.allowed)
    return result.tolist()


@given(
    st.lists(st.integers(0, WIDTH - 1), max_size=40),
    st.lists(st.integers(0, WIDTH - 1), max_size=40),
    st.integers(0, 3),
    st.integers(1, 50),
    st.sampled_from([{}, {5: [()]}, {5: [(0,), (0, 1)], 4: [()]}, {3: [(3, 3)]}]),
)
def test_what_a_text_takes_off_each_token(prompt, drawn, allowed, last_n, restarts):
    rules = DryRules(0.5, 2.0, allowed, last_n, restarts)
    dry = Dry(rules, prompt)
    assert changed(dry) == expected(rules, prompt)
    for count, token in enumerate(drawn, 1):
        dry.accept(token)
        assert changed(dry) == expected(rules, prompt + drawn[:count])


def test_narrowed_candidates():
    dry = Dry(DryRules(1.0, 2.0, 1, 64, {}), [0, 1, 2, 0, 1])
    assert changed(dry) == [0, 0, -2, 0, 0, 0]
    assert changed(dry, [4, 2]) == [0, -2]
    assert changed(dry, [4, 5]) == [0, 0]


@pytest.mark.parametrize("base", [1.0, 1.75, 1e30])
def test_a_repetition_of_any_length_has_a_finite_penalty(base):
    dry = Dry(DryRules(1.0, base, 2, 4000, {}), [0] * 4000)
    assert np.isfinite(changed(dry)).all()


def test_the_sampler_tells_it_what_is_drawn():
    """Greedy, the same logits again and again: with dry every token gets its turn."""
    logits = np.array([3.0, 2.9, 1.0], np.float32)
    row = Scores(logits[None], np.full((1, -(-3 // MAXIMA_BLOCK)), 3.0, np.float32), [0])
    params = SamplingParams(temperature=0.0, dry_multiplier=3.0, dry_allowed_length=0)
    sampler, drawn = Sampler(params, vocab_size=3), []
    for _ in range(12):
        drawn.append(sampler.sample(row))
        sampler.accept(drawn[-1])
    assert set(drawn) == {0, 1, 2}
