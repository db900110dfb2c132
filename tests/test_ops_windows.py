"""Windows of strided causal convolutions: kernel and twin agree with torch's convolution, however a stream is cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels.library import KernelError
from golem_host.ops import Recording

SLOTS, PIECES, CHANNELS = 3, 9, 5
SHAPES = [(7, 1, 6), (4, 2, 2), (8, 4, 8), (3, 1, 2), (9, 2, 2)]
"""Taps, stride, and steps of a row; the last has more past than a row has steps."""


class Stream:
    """The operation with its state; `x` (slots, pieces, steps, channels) is what its streams hear."""

    def __init__(self, backend: CpuBackend, shape: tuple[int, int, int], *, repeat: bool = False) -> None:
        self.taps, self.stride, self.steps = shape
        recording = Recording()
        rows = recording.axis("rows", PIECES)
        steps, outputs = (
            recording.axis(name, PIECES * n) for name, n in (("steps", self.steps), ("out", self._outputs))
        )
        slots, positions = recording.input("slots", rows), recording.input("positions", rows)
        x = recording.input("x", steps, CHANNELS, dtype="f32")
        self.state = backend.state(slots=SLOTS, shape=(self.taps - self.stride, CHANNELS))
        out = ops.causal_windows(
            x, self.state, slots, positions, taps=self.taps, stride=self.stride, axis=outputs, repeat=repeat
        )
        recording.output("out", out)
        self._program: Any = backend.compile(recording)
        self.x = np.random.default_rng(1).standard_normal((SLOTS, PIECES, self.steps, CHANNELS), np.float32)

    @property
    def _outputs(self) -> int:
        return self.steps // self.stride

    def feed(self, slots: Sequence[int], pieces: Sequence[int]) -> NDArray[np.float32]:
        """Windows (rows, outputs, taps, channels) of pieces of the streams."""
        count = len(slots)
        inputs = self._program.inputs
        inputs["slots"][:count], inputs["positions"][:count] = slots, pieces
        heard = self.x[np.clip(slots, 0, SLOTS - 1), np.clip(pieces, 0, PIECES - 1)]
        inputs["x"][: count * self.steps] = heard.reshape(-1, CHANNELS)
        self._program.run({"rows": count, "steps": count * self.steps, "out": count * self._outputs})
        return self._program.output("out").copy().reshape(count, self._outputs, self.taps, CHANNELS)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("repeat", [False, True])
def test_windows_are_those_of_a_padded_convolution(
    each_backend: CpuBackend, shape: tuple[int, int, int], repeat: bool
) -> None:
    stream = Stream(each_backend, shape, repeat=repeat)
    found = stream.feed([1] * PIECES, range(PIECES)).reshape(-1, stream.taps, CHANNELS)
    whole = torch.from_numpy(stream.x[1].reshape(-1, CHANNELS))
    before = whole[:1] if repeat else torch.zeros(1, CHANNELS)
    padded = torch.cat([before.expand(stream.taps - stream.stride, -1), whole])
    weight = torch.randn(4, CHANNELS, stream.taps, generator=torch.Generator().manual_seed(2))
    expected = torch.nn.functional.conv1d(padded.T, weight, stride=stream.stride).T
    # float32 sums of dozens of products in another order
    torch.testing.assert_close(
        torch.einsum("tkc,ock->to", torch.from_numpy(found), weight), expected, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("repeat", [False, True])
def test_pieces_and_company_do_not_matter(each_backend: CpuBackend, shape: tuple[int, int, int], repeat: bool) -> None:
    whole = Stream(each_backend, shape, repeat=repeat)
    expected = [whole.feed([slot] * PIECES, range(PIECES)) for slot in range(SLOTS)]
    stream = Stream(each_backend, shape, repeat=repeat)
    first = stream.feed([2], [0])
    mixed = stream.feed([0, 2, 1, 0, 2, 0], [0, 1, 0, 1, 2, 2])
    rest = stream.feed([2] * 6, range(3, 9))
    np.testing.assert_array_equal(np.concatenate([first, mixed[[1, 4]], rest]), expected[2])
    np.testing.assert_array_equal(mixed[[0, 3, 5]], expected[0][:3])
    np.testing.assert_array_equal(mixed[2], expected[1][0])
    np.testing.assert_array_equal(stream.feed([2, 2], [0, 1]), expected[2][:2])


def test_pieces_that_do_not_follow_fail_the_pass_and_change_nothing(each_backend: CpuBackend) -> None:
    stream = Stream(each_backend, SHAPES[0])
    expected = stream.feed([0] * 4, range(4))
    stream.feed([0, 0], [0, 1])
    before = stream.state.values.copy()
    for slots, pieces in ([[0], [3]], [[0], [1]], [[1], [1]], [[SLOTS], [0]], [[-1], [0]], [[0, 0], [2, 2]]):
        with pytest.raises((KernelError, IndexError)):
            stream.feed(slots, pieces)
        np.testing.assert_array_equal(stream.state.values, before)
    np.testing.assert_array_equal(stream.feed([0, 0], [2, 3]), expected[2:])


@pytest.mark.parametrize(
    ("steps", "outputs", "taps", "stride", "state", "problem"),
    [
        (7, 7, 3, 1, (2, 5), "7 steps in 2 rows"),
        (6, 3, 2, 2, (0, 5), "2 taps, a stride of 2"),
        (8, 8, 4, 2, (2, 5), "8 outputs of 8 steps"),
        (8, 4, 4, 2, (3, 5), "state of shape"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    steps: int, outputs: int, taps: int, stride: int, state: tuple[int, int], problem: str
) -> None:
    recording = Recording()
    rows = recording.axis("rows", 2)
    x = recording.input("x", recording.axis("steps", steps), 5, dtype="f32")
    slots, positions = recording.input("slots", rows), recording.input("positions", rows)
    axis = recording.axis("outputs", outputs)
    memory = CpuBackend(threads=1).state(slots=1, shape=state)
    with pytest.raises(ValueError, match=problem):
        ops.causal_windows(x, memory, slots, positions, taps=taps, stride=stride, axis=axis)
