"""Attention over slot caches has the bits of the CPU's kernels, and a row's bits ignore its company."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.devices.vulkan.backend import VulkanBackend
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.lower_attention import Heads, Tile
from golem_host.devices.vulkan.physical import PhysicalDevice
from golem_host.ops import Recording

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """Attention of one layer. `lengths` are those of the conversations in slots 0, 2, ..."""

    heads: int = 4
    kv_heads: int = 2
    key_dim: int = 8
    value_dim: int = 12
    cells: int = 160
    window: int = 0
    softcap: float = 0.0
    lengths: tuple[int, ...] = (150, 9)


class Layer:
    """A layer with its cache, and random queries, keys and values for all rows of the conversations."""

    def __init__(self, backend: Any, shape: Shape) -> None:
        self.backend, self.shape = backend, shape
        rng = np.random.default_rng(4)
        slots = 2 * len(shape.lengths)
        self.slots = np.repeat(np.arange(0, slots, 2, dtype=np.int32), shape.lengths)
        self.positions = np.concatenate([np.arange(n, dtype=np.int32) for n in shape.lengths])
        heads = (shape.heads * shape.key_dim, shape.kv_heads * shape.key_dim, shape.kv_heads * shape.value_dim)
        self.rows = [rng.standard_normal((len(self.slots), n), np.float32) for n in heads]
        self.cache = backend.cache(
            slots=slots,
            cells=shape.cells,
            kv_heads=shape.kv_heads,
            key_dim=shape.key_dim,
            value_dim=shape.value_dim,
        )
        self.programs: dict[int, Any] = {}

    def program(self, width: int) -> Any:
        if width not in self.programs:
            shape, recording = self.shape, Recording()
            axis = recording.axis("rows", width)
            widths = [row.shape[1] for row in self.rows]
            q, k, v = (recording.input(n, axis, w, dtype="f32") for n, w in zip("qkv", widths, strict=True))
            s, p = recording.input("s", axis), recording.input("p", axis)
            ops.cache_store(self.cache, k, v, s, p)
            q = q.reshape(shape.heads, shape.key_dim)
            out = ops.attention(
                q, self.cache, s, p, scale=shape.key_dim**-0.5, window=shape.window, softcap=shape.softcap
            )
            recording.output("out", out)
            self.programs[width] = self.backend.compile(recording)
        return self.programs[width]

    def attend(self, order: list[Rows], width: int = 64) -> NDArray[np.float32]:
        """The results of all rows, fed in that order, in passes recorded for `width` rows."""
        out = np.zeros((len(self.slots), self.shape.heads, self.shape.value_dim), np.float32)
        for chunk in order:
            program = self.program(width)
            for name, value in zip("qkvsp", (*self.rows, self.slots, self.positions), strict=True):
                program.inputs[name][: len(chunk)] = value[chunk]
            program.run({"rows": len(chunk)})
            out[chunk] = program.output("out")
        return out

    def exact(self) -> NDArray[np.float64]:
        """In double, from keys, values and queries in half precision."""
        shape = self.shape
        with np.errstate(over="ignore"):
            q, k, v = (row.astype(np.float16).astype(np.float64) for row in self.rows)
        out = np.zeros((len(q), shape.heads, shape.value_dim))
        for row, (slot, position) in enumerate(zip(self.slots, self.positions, strict=True)):
            first = max(0, position + 1 - shape.window) if shape.window else 0
            past = np.flatnonzero((self.slots == slot) & (self.positions >= first) & (self.positions <= position))
            keys = k[past].reshape(len(past), shape.kv_heads, -1)
            values = v[past].reshape(len(past), shape.kv_heads, -1)
            queries = q[row].reshape(shape.kv_heads, -1, shape.key_dim)
            scores = shape.key_dim**-0.5 * np.einsum("hgd,nhd->hgn", queries, keys)
            if shape.softcap:
                scores = shape.softcap * np.tanh(scores / shape.softcap)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            out[row] = np.einsum("hgn,nhd->hgd", weights, values).reshape(shape.heads, -1)
        return out


SHAPES = {
    "plain": Shape(),
    "ring": Shape(window=20, cells=60),
    "long window": Shape(window=140, cells=201, lengths=(310, 9)),
    "softcap": Shape(softcap=5.0),
    "wide": Shape(heads=3, kv_heads=1, key_dim=256, value_dim=256, lengths=(140, 30)),
    "group of 16": Shape(heads=16, kv_heads=1, key_dim=64, value_dim=64, lengths=(40, 9)),
    "odd group": Shape(heads=7, kv_heads=1, key_dim=20, value_dim=6, lengths=(135, 9)),
    "one head": Shape(heads=1, kv_heads=1, key_dim=2, value_dim=2, lengths=(130, 1)),
    "many ranges": Shape(heads=4, kv_heads=1, key_dim=16, value_dim=16, cells=400, lengths=(390, 140)),
}


def chunks(rows: int, parts: int) -> list[Rows]:
    return np.array_split(np.arange(rows), parts)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_attention(vulkan: VulkanBackend, cpu: CpuBackend, shape: Shape) -> None:
    rows, length = sum(shape.lengths), shape.lengths[0]
    parts = -(-rows // 40)
    layer = Layer(vulkan, shape)
    together = layer.attend(chunks(rows, parts))
    np.testing.assert_array_equal(together, Layer(cpu, shape).attend(chunks(rows, parts)))
    # Weights, whose sum is one, are rounded to half precision.
    np.testing.assert_allclose(together, layer.exact(), rtol=0, atol=2**-11 * np.abs(layer.rows[2]).max())
    # A few rows of one conversation with one of another, in passes that share keys between workgroups.
    few = chunks(length - 12, length // 5)
    other = np.array_split(np.arange(length, rows), len(few))
    mixed = [np.concatenate(pair) for pair in zip(few, other, strict=True)]
    np.testing.assert_array_equal(layer.attend([*mixed, np.arange(length - 12, length)], width=16), together)


@pytest.mark.parametrize("name", ["ring", "many ranges", "wide"])
def test_passes_of_any_width(vulkan: VulkanBackend, name: str) -> None:
    """Passes of one row, whose keys are shared between workgroups, of eight, and wide ones, which share none."""
    shape = SHAPES[name]
    rows, length = sum(shape.lengths), shape.lengths[0]
    layer = Layer(vulkan, shape)
    expected = layer.attend(chunks(rows, -(-rows // 40)))
    last = np.arange(length - 25, length)
    for width in (1, 8, 64):
        found = layer.attend(np.array_split(last, -(-25 // width)), width)
        np.testing.assert_array_equal(found[last], expected[last])


@pytest.mark.parametrize("window", [0, 1061])
def test_sums_of_many_positions(vulkan: VulkanBackend, cpu: CpuBackend, window: int) -> None:
    """Sums of weights are made of 1024 positions each: with a window they begin anywhere."""
    length = 2 * window + 40 if window else 1100
    shape = Shape(heads=2, kv_heads=1, cells=1317 if window else length, window=window, lengths=(length,))
    layer, expected = Layer(vulkan, shape), Layer(cpu, shape).attend(chunks(length, -(-length // 256)), 256)
    np.testing.assert_array_equal(layer.attend(chunks(length, -(-length // 256)), 256), expected)
    last = np.arange(length - 20, length)
    np.testing.assert_array_equal(layer.attend(np.array_split(last, 5), 4)[last], expected[last])


@pytest.mark.parametrize("by_driver", [True, False])
def test_small_halves_are_kept(
    physical: PhysicalDevice, cpu: CpuBackend, by_driver: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the driver's own way of unpacking them is not trusted."""
    with Gpu(physical) as gpu:
        if not by_driver:
            monkeypatch.setattr(gpu, "facts", replace(gpu.facts, small_halves=False))
        layers = [Layer(each, Shape()) for each in (VulkanBackend(gpu), cpu)]
        for layer in layers:
            for row in layer.rows[1:]:
                row[::2] *= 1e-5
                row[0, :2] = np.inf, 65504
        found, expected = (layer.attend(chunks(159, 4)) for layer in layers)
    np.testing.assert_array_equal(found, expected)


def test_stale_cells_are_not_seen(vulkan: VulkanBackend) -> None:
    """What a cell held before, infinite or not a number, says nothing to rows that do not attend it."""
    shape = Shape(lengths=(50, 140))
    clean, dirty = Layer(vulkan, shape), Layer(vulkan, shape)
    for row in dirty.rows[1:]:
        row[50::2], row[51::2] = np.inf, np.nan
    order = [np.arange(50, 190), np.arange(30), np.arange(30, 31), np.arange(31, 50)]
    dirty.slots[:] = 0
    spoilt = dirty.attend(order, width=140)[:50]
    np.testing.assert_array_equal(spoilt, clean.attend([np.arange(50)])[:50])


def test_a_bad_row_leaves_the_rows_before_it_alone(vulkan: VulkanBackend) -> None:
    clean, bad = Layer(vulkan, Shape()), Layer(vulkan, Shape())
    bad.rows[1][100], bad.rows[2][101] = np.nan, np.inf
    found, expected = (each.attend(chunks(159, 4)) for each in (bad, clean))
    np.testing.assert_array_equal(found[:100], expected[:100])
    np.testing.assert_array_equal(found[150:], expected[150:])
    assert not np.isfinite(found[101:150]).all((-1, -2)).any()


def test_positions_and_slots_outside_the_cache_fail_the_pass(vulkan: VulkanBackend) -> None:
    layer = Layer(vulkan, Shape())
    for slot, position in [(-1, 0), (4, 0), (0, -1), (0, 160)]:
        layer.slots[0], layer.positions[0] = slot, position
        with pytest.raises(IndexError):
            layer.attend([np.array([0])])
    layer.slots[0], layer.positions[0] = 0, 159
    layer.attend([np.array([0])])


@pytest.mark.parametrize("room", [16 << 10, 32 << 10])
def test_tiles_fit_what_a_workgroup_shares(room: int) -> None:
    for dim in (8, 64, 80, 128, 256, 576):
        for group in (1, 3, 7, 8, 16, 71):
            for rows in (1, 8, 512):
                of = Heads(2, group, dim, dim - 2)
                tile = Tile.of(of, rows, 9, room)
                assert tile.shared_bytes(of) <= room
                assert group % tile.heads == 0
    with pytest.raises(ValueError, match="do not fit the 1024 bytes"):
        Tile.of(Heads(1, 1, 128, 128), 1, 1, 1024)


def test_what_is_stored_is_the_nearest_half(vulkan: VulkanBackend, twin: CpuBackend) -> None:
    rng = np.random.default_rng(8)
    values = rng.integers(0, 2**32, (6, 40), np.uint32).view(np.float32)  # every exponent
    values[:, ::3] = np.float32(1) * rng.standard_normal((6, 14))
    values[0, :8] = [65504, 65519.99, 65520, 1e-8, 2**-24, 2**-25, 1.5 * 2**-24, -0.0]
    values[np.isnan(values)] = 1
    stored = []
    for backend in (vulkan, twin):
        cache = backend.cache(slots=2, cells=5, kv_heads=2, key_dim=20, value_dim=20)
        recording = Recording()
        axis = recording.axis("rows", 6)
        k, s, p = recording.input("k", axis, 40, dtype="f32"), recording.input("s", axis), recording.input("p", axis)
        ops.cache_store(cache, k, k, s, p)
        program = backend.compile(recording)
        program.inputs["k"][:], program.inputs["s"][:], program.inputs["p"][:] = values, 1, np.arange(2, 8)
        program.run({"rows": 6})
        stored.append(cache.read(1, np.arange(3, 8)))
    np.testing.assert_array_equal(stored[0][0].view(np.uint32), stored[1][0].view(np.uint32))
    np.testing.assert_array_equal(stored[0][1].view(np.uint32), stored[1][1].view(np.uint32))
