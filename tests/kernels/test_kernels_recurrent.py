"""The convolution and the gated delta rule against numpy in float64: any cut, any mix of slots, any number of threads
gives the same bits, and rows that do not follow their state change nothing.

Tolerance: sums of `width` or `key_dim` products in float32, of states whose rounding is carried on and decays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from golem_host.kernels.library import KernelError, Op

EPS = float(np.finfo(np.float32).eps)
SLOTS = 4


@dataclass
class Rows:
    """Rows of a pass: their inputs (first axis: rows), slots and positions."""

    inputs: list[np.ndarray]
    slots: np.ndarray
    positions: np.ndarray

    def take(self, rows) -> Rows:
        return Rows([np.ascontiguousarray(each[rows]) for each in self.inputs], self.slots[rows], self.positions[rows])

    def __len__(self) -> int:
        return len(self.slots)


@dataclass
class Conv:
    """silu(sum of taps): `width` taps of `n` channels."""

    n: int
    width: int = 4
    weight: np.ndarray = field(init=False)
    op = Op.CONV

    def __post_init__(self):
        self.weight = np.random.default_rng(9).standard_normal((self.width, self.n)).astype(np.float32)

    def shapes(self):
        return [(self.n,)]

    def out_shape(self):
        return (self.n,)

    def state_shape(self):
        return (self.width - 1, self.n)

    def pointers(self, rows, out, state, taken):
        return [out, rows.inputs[0], self.weight, state, taken, rows.slots, rows.positions]

    def ints(self):
        return [self.n, self.width, SLOTS]

    def floats(self):
        return []

    def step(self, state, x):
        window = np.concatenate([state, x[None]])
        mixed = (window * self.weight).sum(0)
        return window[1:], mixed / (1 + np.exp(-mixed))


@dataclass
class Delta:
    """The gated delta rule."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    op = Op.DELTA

    def shapes(self):
        return [(2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim,)] + 2 * [(self.value_heads,)]

    def out_shape(self):
        return (self.value_heads, self.value_dim)

    def state_shape(self):
        return (self.value_heads, self.key_dim, self.value_dim)

    def pointers(self, rows, out, state, taken):
        return [out, *rows.inputs, state, taken, rows.slots, rows.positions]

    def ints(self):
        return [self.key_heads, self.value_heads, self.key_dim, self.value_dim, SLOTS]

    def floats(self):
        return [0.25]

    def step(self, state, qkv, decay, beta):
        keys = self.key_heads * self.key_dim
        state, out = state.copy(), np.empty(self.out_shape())
        for h in range(self.value_heads):
            at = h % self.key_heads * self.key_dim
            q, k = qkv[at : at + self.key_dim], qkv[keys + at : keys + at + self.key_dim]
            v = qkv[2 * keys + h * self.value_dim :][: self.value_dim]
            state[h] *= decay[h]
            state[h] += np.outer(k, beta[h] * (v - state[h].T @ k))
            out[h] = 0.25 * state[h].T @ q
        return state, out


OPS = [
    Conv(1),
    Conv(37, 2),
    Conv(130),
    Conv(2048, 16),
    Delta(1, 1, 1, 1),
    Delta(2, 4, 24, 40),
    Delta(3, 3, 9, 31),
    Delta(1, 2, 128, 128),
    Delta(2, 2, 256, 33),
]


def rows_of(op, lengths, seed=1):
    """`lengths` rows of slots 0, 1, ... from position 0, slot after slot; keys and queries are l2-normalised."""
    rng = np.random.default_rng(seed)
    count = sum(lengths)
    inputs = [rng.standard_normal((count, *shape)).astype(np.float32) for shape in op.shapes()]
    if op.op is Op.DELTA:
        heads = inputs[0][:, : 2 * op.key_heads * op.key_dim].reshape(count, -1, op.key_dim)
        heads /= np.sqrt((heads**2).sum(-1, keepdims=True))
        inputs[1:] = [rng.uniform(low, 1, (count, op.value_heads)).astype(np.float32) for low in (0.7, 0)]
    slots = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    return Rows(inputs, slots, np.concatenate([np.arange(n, dtype=np.int32) for n in lengths]))


def fresh_state(op, value=np.nan):
    """A state nobody has written, which a row at position 0 must not read."""
    return np.full((SLOTS, *op.state_shape()), value, np.float32), np.zeros(SLOTS, np.int32)


def run(runner, op, rows, state, taken):
    out = np.full((len(rows), *op.out_shape()), np.nan, np.float32)
    runner.run(op.op, len(rows), op.pointers(rows, out, state, taken), op.ints(), op.floats())
    return out


def run_cut(runner, op, rows, chunks):
    """The rows in several passes, each a list of row numbers."""
    state, taken = fresh_state(op)
    out = np.empty((len(rows), *op.out_shape()), np.float32)
    for chunk in chunks:
        out[chunk] = run(runner, op, rows.take(chunk), state, taken)
    return out, state, taken


@pytest.mark.parametrize("op", OPS, ids=str)
def test_values(runner, op):
    rows = rows_of(op, [40, 1, 5])
    out, state, taken = run_cut(runner, op, rows, [np.arange(len(rows))])
    assert taken.tolist() == [40, 1, 5, 0]
    assert np.isnan(state[3]).all()
    for slot in range(3):
        kept = np.zeros(op.state_shape())
        for row in np.flatnonzero(rows.slots == slot):
            kept, expected = op.step(kept, *(each[row].astype(np.float64) for each in rows.inputs))
            np.testing.assert_allclose(out[row], expected, rtol=0, atol=64 * EPS * max(1, np.abs(expected).max()))
        np.testing.assert_allclose(state[slot], kept, rtol=0, atol=64 * EPS * max(1, np.abs(kept).max()))


@pytest.mark.parametrize("op", OPS, ids=str)
def test_any_cut_any_mix_and_any_threads_give_the_same_bits(runner, make_runner, rng, op):
    rows = rows_of(op, [40, 9, 5])
    together, states, _ = run_cut(runner, op, rows, [np.arange(54)])
    cuts = [
        [np.array([row]) for row in range(54)],
        [*np.array_split(np.arange(40), 7), np.arange(40, 54)],
        # draws of two slots beside chunks of a prompt, in between its rows
        [np.r_[chunk[:2], 40 + at, chunk[2:]] for at, chunk in enumerate(np.array_split(np.arange(40), 9))]
        + [np.arange(49, 54)],
    ]
    mixed = rng.permutation(np.repeat([0, 1, 2], [40, 9, 5]))
    order = np.empty(54, np.int64)
    for slot, first in enumerate((0, 40, 49)):
        places = np.flatnonzero(mixed == slot)
        order[places] = first + np.arange(len(places))
    for chunks in [*cuts, [order]]:
        out, state, taken = run_cut(runner, op, rows, chunks)
        assert out.tobytes() == together.tobytes()
        assert state[:3].tobytes() == states[:3].tobytes()
        assert taken.tolist() == [40, 9, 5, 0]
    for threads in (1, 2, 3):
        out, state, _ = run_cut(make_runner(threads), op, rows, [np.arange(54)])
        assert out.tobytes() == together.tobytes()
        assert state[:3].tobytes() == states[:3].tobytes()


@pytest.mark.parametrize("op", OPS, ids=str)
def test_a_slot_begins_anew_at_position_0(runner, op):
    rows = rows_of(op, [6])
    expected, _, _ = run_cut(runner, op, rows, [np.arange(6)])
    state, taken = fresh_state(op)
    for length in (6, 2, 6):
        out = run(runner, op, rows.take(np.arange(length)), state, taken)
        assert out.tobytes() == expected[:length].tobytes()
        assert taken[0] == length


@pytest.mark.parametrize("op", [Conv(130), Delta(1, 2, 128, 128)], ids=str)
def test_nan_stays_in_its_slot(runner, op):
    rows = rows_of(op, [20, 20])
    clean, states, _ = run_cut(runner, op, rows, [np.arange(40)])
    rows.inputs[0][3] = np.nan
    out, state, _ = run_cut(runner, op, rows, [np.arange(40)])
    assert np.isnan(out[3]).any()
    assert out[20:].tobytes() == clean[20:].tobytes() and state[1].tobytes() == states[1].tobytes()
    assert out[:3].tobytes() == clean[:3].tobytes()


@pytest.mark.parametrize("op", OPS, ids=str)
def test_nothing_past_a_row_is_touched(runner, guarded, op):
    rows = rows_of(op, [3])
    expected, states, _ = run_cut(runner, op, rows, [np.arange(3)])
    rows = Rows([guarded(each) for each in rows.inputs], guarded(rows.slots), guarded(rows.positions))
    state, taken = fresh_state(op, value=0)
    # the last slot, whose state ends at the guard
    rows.slots[:] = SLOTS - 1
    state, taken, out = guarded(state), guarded(taken), guarded(np.zeros_like(expected))
    pointers = op.pointers(rows, out, state, taken)
    if op.op is Op.CONV:
        pointers[2] = guarded(op.weight)
    runner.run(op.op, 3, pointers, op.ints(), op.floats())
    assert out.tobytes() == expected.tobytes() and state[-1].tobytes() == states[0].tobytes()
    assert not state[:-1].any()


@pytest.mark.parametrize(
    ("slots", "positions", "text"),
    [
        ([0, SLOTS], [7, 0], "slot"),
        ([0, -1], [7, 0], "slot"),
        ([0], [6], "position"),
        ([0], [8], "position"),
        ([0], [-1], "position"),
        ([0], [2**31 - 1], "position"),
        ([1], [1], "position"),
        ([0, 0], [7, 7], "position"),
        ([0, 0], [7, 9], "position"),
        ([0, 0], [8, 7], "position"),
        ([0, 0], [7, 0], "position"),
        ([1, 0, 1], [0, 7, 2], "position"),
    ],
)
@pytest.mark.parametrize("op", [Conv(130), Delta(2, 4, 24, 40)], ids=str)
def test_rows_that_do_not_follow_their_state_change_nothing(runner, op, slots, positions, text):
    state, taken = fresh_state(op, value=0.5)
    taken[0] = 7
    rows = rows_of(op, [len(slots)])
    rows = Rows(rows.inputs, np.array(slots, np.int32), np.array(positions, np.int32))
    out = np.zeros((len(rows), *op.out_shape()), np.float32)
    with pytest.raises(KernelError, match=text):
        runner.run(op.op, len(rows), op.pointers(rows, out, state, taken), op.ints(), op.floats())
    assert not out.any() and (state == 0.5).all() and taken.tolist() == [7, 0, 0, 0]


@pytest.mark.parametrize(
    ("op", "ints"),
    [
        (Op.CONV, [0, 4, 1]),
        (Op.CONV, [8, 1, 1]),
        (Op.CONV, [8, 17, 1]),
        (Op.CONV, [8, 4, 0]),
        (Op.CONV, [8, 4, 2**20 + 1]),
        (Op.WINDOWS, [0, 4, 4, 2, 1]),
        (Op.WINDOWS, [8, 3, 4, 2, 1]),
        (Op.WINDOWS, [8, 4, 2, 2, 1]),
        (Op.WINDOWS, [8, 4, 4, 2, 0]),
        (Op.WINDOWS, [8, 4, 4, 2, 1, 2]),
        (Op.DELTA, [2, 3, 4, 4, 1]),
        (Op.DELTA, [0, 2, 4, 4, 1]),
        (Op.DELTA, [1, 1, 257, 4, 1]),
        (Op.DELTA, [1, 1, 4, 0, 1]),
        (Op.DELTA, [1, 1, 4, 4, -1]),
        (Op.DELTA, [1, 1, 4, 4, 2**20 + 1]),
    ],
)
def test_refuses_bad_sizes(runner, op, ints):
    arrays = [np.zeros(1024, np.uint8) for _ in range(8)]
    with pytest.raises(KernelError, match="size"):
        runner.run(op, 1, arrays, ints, [1.0])
