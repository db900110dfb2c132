from __future__ import annotations

import pytest

from golem_host_chat.sampling_random import Mt19937


@pytest.mark.parametrize(
    ("seed", "outputs"),
    [
        (5489, [3499211612, 581869302, 3890346734, 3586334585, 545404204]),
        (1, [1791095845, 4282876139, 3093770124, 4005303368, 491263]),
        (0, [2357136044, 2546248239, 3071714933, 3626093760, 2588848963]),
    ],
)
def test_outputs_are_those_of_std_mt19937(seed, outputs):
    generator = Mt19937(seed)
    assert [generator.raw() for _ in outputs] == outputs


def test_ten_thousandth_output_of_the_default_seed_is_the_one_the_cpp_standard_names():
    generator = Mt19937(5489)
    for _ in range(9999):
        generator.raw()
    assert generator.raw() == 4123659995


def test_a_double_takes_two_outputs_the_first_one_low():
    assert Mt19937(5489).uniform_double() == (3499211612 + 581869302 * 2**32) / 2**64
    generator = Mt19937(5489)
    generator.uniform_double()
    assert generator.raw() == 3890346734


def test_a_float_takes_one_output():
    generator = Mt19937(5489)
    assert float(generator.uniform_float()) == pytest.approx(3499211612 / 2**32, abs=1e-7)
    assert generator.raw() == 581869302


def test_the_largest_seed_is_a_seed():
    assert Mt19937(2**32 - 1).raw() != Mt19937(0).raw()
