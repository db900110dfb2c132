"""No command touches memory beside its arrays: each lies against a page that nobody may touch, once with its end and
once with its start, over odd sizes down to one value, one row, one block. The results are those of arrays elsewhere.

Products, experts and re-laid weights over random shapes: test_kernels_product.py, _experts.py, _laid.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from golem_host.devices.cpu import CpuCache
from golem_host.kernels.library import MAXIMA_BLOCK, Act, GateKind, Op, RopeAxes, RopeStyle, Weighting
from golem_host.ops import CacheType
from golem_host.weights.types import GgmlType
from kernel_replay import ReplayKernels

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65)
ROWS = (1, 2, 5)
SLOTS = 2
GGML_TYPES = {CacheType.F16: 0, CacheType.F32: 1, CacheType.Q8_0: 8}
ROUTE = np.dtype([("expert", np.int32), ("weight", np.float32)])


class Call(NamedTuple):
    """A command: its arrays (results among them), integers and constants."""

    p: Sequence[Any]
    i: Sequence[int] = ()
    f: Sequence[float] = ()


class Maker:
    """Random arrays of one size."""

    def __init__(self, rows: int, n: int) -> None:
        self.rows, self.n = rows, n
        self.rng = np.random.default_rng(n)

    def x(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def out(self, *shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    def below(self, count: int) -> np.ndarray:
        """One number for each row, the largest among them."""
        return np.append(self.rng.integers(0, count, self.rows - 1), count - 1).astype(np.int32)

    def ones(self, *shape: int) -> np.ndarray:
        return np.ones(shape, np.float32)


def elementwise(single: bool) -> Callable[[Maker], Call]:
    return lambda m: Call(
        [m.out(m.rows, m.n), m.x(m.rows, m.n), m.x(m.n) if single else m.x(m.rows, m.n)], [m.n, single]
    )


def moved(*constants: float) -> Callable[[Maker], Call]:
    return lambda m: Call([m.out(m.rows, m.n), m.x(m.rows, m.n)], [m.n], constants)


def norm(weighted: bool) -> Callable[[Maker], Call]:
    return lambda m: Call(
        [m.out(m.rows, 3, m.n), m.x(m.rows, 3, m.n), m.x(m.n) if weighted else None], [m.n, 3], [1e-5]
    )


def angles(axes: RopeAxes) -> Callable[[Maker], Call]:
    def make(m: Maker) -> Call:
        positions = m.rng.integers(0, 1000, (m.rows, 4) if axes is not RopeAxes.ONE else m.rows, dtype=np.int32)
        sections = [] if axes is RopeAxes.ONE else [m.n, 0, 0, 0]
        return Call([m.out(m.rows, m.n, 2), positions, m.ones(m.n)], [2 * m.n, 0, axes, *sections], [1e4, 1, 0, 1])

    return make


def rotation(style: RopeStyle, beyond: int) -> Callable[[Maker], Call]:
    def make(m: Maker) -> Call:
        hd = 2 * m.n + beyond
        return Call([m.out(m.rows, 3, hd), m.x(m.rows, 3, hd), m.x(m.rows, m.n, 2)], [3, hd, 2 * m.n, style])

    return make


def gate(kind: GateKind, up: bool = True) -> Callable[[Maker], Call]:
    return lambda m: Call([m.out(m.rows, m.n), m.x(m.rows, m.n), m.x(m.rows, m.n) if up else None], [m.n, kind])


def selected(m: Maker) -> Call:
    return Call([m.out(m.rows, m.n), m.x(4, m.n), m.below(4)], [m.n, -1, 4])


def part_of_groups(m: Maker) -> Call:
    return Call([m.out(m.rows, 3, m.n), m.x(m.rows, 3, m.n + 2)], [m.n, 3, m.n + 2, 2])


CELLS = 21
"""Of a ring: no whole number of anything."""


KV_HEADS = 2


def cache(m: Maker, kind: CacheType, key_dim: int, value_dim: int) -> CpuCache:
    """Full of random keys and values."""
    sizes = {"slots": SLOTS, "cells": CELLS, "kv_heads": KV_HEADS, "key_dim": key_dim, "value_dim": value_dim}
    made = CpuCache(**sizes, type=kind)
    for slot in range(SLOTS):
        for cell in range(CELLS):
            made.write(slot, cell, m.x(KV_HEADS, key_dim), m.x(KV_HEADS, value_dim))
    return made


def head_dims(m: Maker, kind: CacheType, more: int) -> tuple[int, int]:
    """Of keys and values: one of them is `more` than the other, or as many blocks."""
    by = 32 if kind is CacheType.Q8_0 else 1
    return by * (m.n % 8 + max(0, more) + 1), by * (m.n % 8 + max(0, -more) + 1)


def stored(kind: CacheType) -> Callable[[Maker], Call]:
    """Up to the last cell of the last slot."""

    def make(m: Maker) -> Call:
        hd, vd = head_dims(m, kind, -1)
        into, positions = cache(m, kind, hd, vd), np.arange(m.rows, dtype=np.int32) + 2 * CELLS - m.rows
        slots = np.full(m.rows, SLOTS - 1, np.int32)
        p = [into.keys, into.values, m.x(m.rows, KV_HEADS, hd), m.x(m.rows, KV_HEADS, vd), slots, positions]
        return Call(p, [KV_HEADS, hd, vd, CELLS, SLOTS, GGML_TYPES[kind]])

    return make


def attention(kind: CacheType, window: int, more: int) -> Callable[[Maker], Call]:
    """Over a ring that is full, or with a window that ends at the last cell of the last slot."""

    def make(m: Maker) -> Call:
        hd, vd = head_dims(m, kind, more)
        over, positions = cache(m, kind, hd, vd), np.full(m.rows, (2 if window else 1) * CELLS - 1, np.int32)
        slots = np.full(m.rows, SLOTS - 1, np.int32)
        p = [m.out(m.rows, 6, vd), m.x(m.rows, 6, hd), over.keys, over.values, slots, positions]
        return Call(p, [6, KV_HEADS, hd, vd, CELLS, SLOTS, window, GGML_TYPES[kind]], [hd**-0.5])

    return make


def convolution(m: Maker) -> Call:
    state, taken = m.x(SLOTS, 3, m.n), np.array([5, 7], np.int32)
    positions = np.arange(7, 7 + m.rows, dtype=np.int32)
    slots = np.full(m.rows, SLOTS - 1, np.int32)
    p = [m.out(m.rows, m.n), m.x(m.rows, m.n), m.x(4, m.n), state, taken, slots, positions]
    return Call(p, [m.n, 4, SLOTS])


def delta(m: Maker) -> Call:
    key_heads, value_heads, value_dim = 1, 2, m.n
    qkv = m.x(m.rows, 2 * key_heads * m.n + value_heads * value_dim)
    decay, beta = m.ones(m.rows, value_heads) / 2, m.ones(m.rows, value_heads) / 2
    state, taken = m.x(SLOTS, value_heads, m.n, value_dim), np.array([5, 7], np.int32)
    positions = np.arange(7, 7 + m.rows, dtype=np.int32)
    slots = np.full(m.rows, SLOTS - 1, np.int32)
    p = [m.out(m.rows, value_heads, value_dim), qkv, decay, beta, state, taken, slots, positions]
    return Call(p, [key_heads, value_heads, m.n, value_dim, SLOTS], [0.5])


def routed(weighting: Weighting) -> Callable[[Maker], Call]:
    def make(m: Maker) -> Call:
        used = (m.n + 1) // 2
        return Call([np.zeros((m.rows, used), ROUTE), m.x(m.rows, m.n), m.x(m.n)], [m.n, used, weighting], [1.5])

    return make


def mixed(m: Maker) -> Call:
    routes = np.zeros((m.rows, 3), ROUTE)
    routes["weight"] = m.x(m.rows, 3)
    return Call([m.out(m.rows, m.n), m.x(m.rows, 3, m.n), routes], [m.n, 3])


def l2_norm(m: Maker) -> Call:
    return Call([m.out(m.rows, 2 * m.n + 1), m.x(m.rows, 2 * m.n + 1)], [m.n, 2, 2 * m.n + 1], [1e-6])


def hadamard(m: Maker) -> Call:
    n = 3 * (1 << m.n.bit_length()) * m.n
    return Call([m.out(m.rows, n), m.x(m.rows, n), m.x(n)], [n, 1 << m.n.bit_length(), 0, 3, m.n])


def decay(m: Maker) -> Call:
    return Call([m.out(m.rows, m.n), m.x(m.rows, m.n), m.x(m.n), m.x(m.n)], [m.n])


def layer_norm(m: Maker) -> Call:
    return Call([m.out(m.rows, m.n), m.x(m.rows, m.n), m.x(m.n), m.x(m.n)], [m.n], [1e-5])


def text_attention(m: Maker) -> Call:
    """As many rows as values in a head, in two texts."""
    q, k, v = (m.x(m.rows * m.n, 2, m.n) for _ in range(3))
    texts = (np.arange(m.rows * m.n) >= m.rows).astype(np.int32)
    return Call([m.out(m.rows * m.n, 2, m.n), q, k, v, texts], [2, m.n], [0.5])


def windows(m: Maker) -> Call:
    """Of the last slot, from its state on."""
    x, state = m.x(m.rows, 4, m.n), m.x(SLOTS, 3, m.n)
    taken, slots = np.full(SLOTS, 7, np.int32), np.full(m.rows, SLOTS - 1, np.int32)
    at = 7 + np.arange(m.rows, dtype=np.int32)
    return Call([m.out(m.rows, 2, 5, m.n), x, state, taken, slots, at], [m.n, 4, 5, 2, SLOTS])


def means(m: Maker) -> Call:
    """Up to the last row."""
    first = m.below(4)
    return Call([m.out(m.rows, m.n), m.x(4, m.n), first, 4 - first], [m.n, -1, 4])


def activations(kind: Act) -> Callable[[Maker, Any], Call]:
    def make(m: Maker, kernels: Any) -> Call:
        n = m.n * {Act.Q8_0: 32, Act.Q8_1: 32, Act.Q8_K: 256}.get(kind, 1)
        out = np.zeros((m.rows * 2, kernels.act_bytes(kind, n)), np.uint8)
        return Call([out, m.x(m.rows, 2, n)], [n, kind, 2])

    return make


def tempered(m: Maker) -> Call:
    return Call([m.out(m.rows, m.n), m.x(m.rows, m.n), m.below(4)], [m.n, 2], [0.5])


def maxima(m: Maker) -> Call:
    n = 20 * m.n
    return Call([m.out(m.rows, -(-n // MAXIMA_BLOCK)), m.x(m.rows, n + 1)], [n, n + 1])


def arg_largest(m: Maker) -> Call:
    """Of falling values, so that the first block's maximum is the largest."""
    n = 20 * m.n
    x = -np.tile(np.arange(n + 1, dtype=np.float32), (m.rows, 1))
    return Call([np.zeros(m.rows, np.int32), x, np.ascontiguousarray(x[:, :n:MAXIMA_BLOCK])], [n, n + 1])


def full_attention(m: Maker, causal: int, coarse: int = 0, heads: tuple[int, int] = (0, 0)) -> Call:
    """Of the last rows of two more keys; head dims of any size. `heads`: the first kv head, and how many."""
    keys = m.rows + 2
    arrays = [m.out(m.rows, 4, m.n), m.x(m.rows, 4, m.n), m.x(keys, 2, m.n), m.x(keys, 2, m.n)]
    return Call(arrays, [4, 2, m.n, -1, keys, 2, causal, coarse, *heads], [0.3])


def image(m: Maker) -> Call:
    """The last of three lines, one as wide as there are rows, with as many outputs as channels and two more."""
    arrays = [m.out(m.rows, m.n + 2), m.x(3 * m.rows, m.n), m.x(m.n + 2, 3, 3, m.n), m.x(m.n + 2)]
    return Call(arrays, [m.n + 2, m.n, m.rows, -1, 3 * m.rows, 2 * m.rows])


CASES: dict[str, tuple[Op, Callable[[Maker], Call]]] = {
    "rms_norm": (Op.RMS_NORM, norm(True)),
    "rms_norm_plain": (Op.RMS_NORM, norm(False)),
    **{f"rope_angles_{axes.name}": (Op.ROPE_ANGLES, angles(axes)) for axes in RopeAxes},
    **{f"rope_{s.name}_{beyond}": (Op.ROPE, rotation(s, beyond)) for s in RopeStyle for beyond in (0, 1)},
    **{f"gate_{kind.name}": (Op.GATE, gate(kind)) for kind in GateKind},
    **{f"store_{kind.value}": (Op.STORE, stored(kind)) for kind in CacheType},
    **{f"attention_{kind.value}_short_keys": (Op.ATTN, attention(kind, 0, -1)) for kind in CacheType},
    **{f"attention_{kind.value}_short_values": (Op.ATTN, attention(kind, 0, 1)) for kind in CacheType},
    **{f"attention_{kind.value}_window": (Op.ATTN, attention(kind, 5, 0)) for kind in CacheType},
    **{f"gate_{kind.name}_alone": (Op.GATE, gate(kind, up=False)) for kind in GateKind},
    "add": (Op.ADD, elementwise(False)),
    "add_row": (Op.ADD, elementwise(True)),
    "mul": (Op.MUL, elementwise(False)),
    "mul_row": (Op.MUL, elementwise(True)),
    "scale": (Op.SCALE, moved(0.3)),
    "softcap": (Op.SOFTCAP, moved(5.0)),
    "temperature": (Op.TEMPERATURE, tempered),
    "select": (Op.SELECT, selected),
    "copy": (Op.COPY, moved()),
    "copy_part_of_groups": (Op.COPY, part_of_groups),
    "conv": (Op.CONV, convolution),
    "windows": (Op.WINDOWS, windows),
    "delta": (Op.DELTA, delta),
    **{f"route_{weighting.name}": (Op.ROUTE, routed(weighting)) for weighting in Weighting},
    "mix": (Op.MIX, mixed),
    "l2_norm": (Op.L2_NORM, l2_norm),
    "decay": (Op.DECAY, decay),
    "hadamard": (Op.HADAMARD, hadamard),
    "layer_norm": (Op.LAYER_NORM, layer_norm),
    "mean": (Op.MEAN, means),
    "block_maxima": (Op.BLOCK_MAXIMA, maxima),
    "arg_largest": (Op.ARG_LARGEST, arg_largest),
    "full_attention": (Op.FULL_ATTN, lambda m: full_attention(m, 0)),
    "full_attention_causal": (Op.FULL_ATTN, lambda m: full_attention(m, 1)),
    "full_attention_coarse": (Op.FULL_ATTN, lambda m: full_attention(m, 0, 1)),
    "full_attention_kv_head": (Op.FULL_ATTN, lambda m: full_attention(m, 0, heads=(1, 1))),
    "image_convolution": (Op.CONV2D, image),
}


def check(runner, place, commands: Sequence[tuple[Op, int, Call]]) -> None:
    """Commands of an operation and a number of rows give the same at a guard as elsewhere."""
    there = [[array if array is None else place(array) for array in call.p] for _, _, call in commands]
    runner.run_all([(op, rows, *call) for op, rows, call in commands])
    runner.run_all([(op, rows, p, call.i, call.f) for (op, rows, call), p in zip(commands, there, strict=True)])
    for (op, rows, call), p in zip(commands, there, strict=True):
        for array, other in zip(call.p, p, strict=True):
            if array is not None and other is not None:
                assert array.tobytes() == other.tobytes(), (op, rows)


@pytest.fixture(params=["before the guard", "after the guard"])
def place(request, kernels, guarded):
    if request.param == "before the guard":
        return guarded
    if isinstance(kernels, ReplayKernels):
        pytest.skip("the other process has its guards behind its arrays")
    return lambda array: guarded(array, after=True)


@pytest.mark.parametrize("name", CASES)
def test_commands(runner, place, name):
    op, make = CASES[name]
    for n in SIZES:
        check(runner, place, [(op, rows, make(Maker(rows, n))) for rows in ROWS])


def test_attention_of_texts(runner, place):
    for n in SIZES:
        check(runner, place, [(Op.TEXT_ATTN, rows * n, text_attention(Maker(rows, n))) for rows in ROWS])


@pytest.mark.parametrize("kind", Act)
def test_activations(runner, place, kind):
    for n in (1, 2, 3, 17):
        check(runner, place, [(Op.ACT, rows, activations(kind)(Maker(rows, n), runner.kernels)) for rows in ROWS])


def test_rows_of_a_table(runner, place, weight_type, make_weights):
    """The last row of the table among them."""
    commands = []
    for blocks in (1, 2, 3):
        for table_rows in (1, 3):
            m = Maker(2, blocks * GgmlType[weight_type].block_size)
            weights = make_weights(m.rng, weight_type, table_rows, m.n)
            call = [m.out(m.rows, m.n), m.below(table_rows), weights.packed]
            commands.append((Op.ROWS, 2, Call(call, [m.n, weights.type, weights.packed.shape[1], table_rows])))
    check(runner, place, commands)


def test_products(runner, place, weight_type, make_weights):
    """Rows that fill no tile, and one block a row."""
    for height in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33):
        commands = []
        for k in (1, 2) if weight_type not in ("F32", "F16", "BF16") else (1, 2, 7, 9, 31):
            m = Maker(1 + height % 3, k * GgmlType[weight_type].block_size)
            weights = make_weights(m.rng, weight_type, height, m.n)
            x = runner.activations(runner.kernels.act_kind(weights.type), m.x(m.rows, m.n))
            call = [m.out(m.rows, height), x, weights.packed, m.x(height)]
            commands.append((Op.MATMUL, m.rows, Call(call, [height, m.n, weights.type])))
        check(runner, place, commands)


def test_every_command_is_tested_for_its_bounds():
    elsewhere = {Op.EXPERTS, Op.LAY}
    assert {op for op, _ in CASES.values()} | {Op.ROWS, Op.ACT, Op.MATMUL, Op.TEXT_ATTN} | elsewhere == set(Op)
