"""What is learnt of how long commands take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.devices.cpu.rates import Rates


def test_a_command_alone_tells_its_rate() -> None:
    rates = Rates()
    assert rates.of("product") == 0
    rates.learn([("product", 10)], 2.0)
    assert rates.of("product") == 0.2
    rates.learn([("product", 4), ("product", 6)], 1.0)
    assert rates.of("product") == 0.1


def test_what_several_take_moves_the_longest_most() -> None:
    rates = Rates()
    rates.learn([("product", 1)], 1.0)
    rates.learn([("norm", 1)], 0.01)
    rates.learn([("product", 1), ("norm", 1)], 1.21)
    assert rates.of("product") + rates.of("norm") == pytest.approx(1.21)
    assert rates.of("product") > 1.19
    assert rates.of("norm") < 0.0101


def test_rates_of_commands_that_run_together_are_found() -> None:
    true, rates = {"product": 3.0, "attention": 1.0, "norm": 0.1}, Rates()
    for key in true:
        rates.learn([(key, 1)], 1.0)
    sets = [{"product": 1, "norm": 2}, {"attention": 2, "product": 1}, {"norm": 5, "attention": 1}]
    for _ in range(200):
        for works in sets:
            rates.learn(list(works.items()), sum(true[key] * work for key, work in works.items()))
    assert {key: rates.of(key) for key in true} == pytest.approx(true, rel=1e-3)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 10**6)), min_size=1), st.floats(1e-9, 1e3))
def test_rates_stay_positive(works: list[tuple[str, int]], seconds: float) -> None:
    rates = Rates()
    for key in "abc":
        rates.learn([(key, 1)], 1e-3)
    for _ in range(3):
        rates.learn(works, seconds)
    assert all(rates.of(key) > 0 for key in "abc")
