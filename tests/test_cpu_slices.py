"""Replays in pieces, and weights that take each other's place in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from golem_host.ops import Recording
from golem_host.weights.tensor import Tensor
from ops_checks import activations, weight

KINDS = ["F32", "BF16", "Q8_0", "Q4_K"]


@pytest.fixture(scope="module", params=["laid", "as stored", "twins"])
def backend(request: pytest.FixtureRequest) -> CpuBackend:
    if request.param != "twins" and library.load() is None:
        pytest.skip("the native kernels were not built")
    return CpuBackend(threads=2, native=request.param != "twins", repack=request.param == "laid")


def layer(weights: dict[str, Tensor], rows: int) -> Recording:
    """Products that run together, rows that read all rows, images, and a step that is a torch function."""
    quantized = weights["w"].type.name.startswith("Q")
    recording = Recording()
    x = recording.input("x", recording.axis("rows", rows), 256, dtype="f32")
    a, b = (ops.linear(x, weights[name], rounds=quantized) for name in "wu")
    a = ops.swiglu(ops.add_row(a, weights["bias"]), a)
    kv = b.reshape(2, 32)
    recording.output("attended", ops.full_attention(x.reshape(8, 32), kv, kv, scale=0.1, causal=True))
    doubled = ops.torch_op(lambda values: values * 2, a, axis=a.axis, shape=a.shape)
    recording.output("image", ops.conv2d(ops.narrow(doubled, 0, 8), weights["image"], width=10))
    return recording


def sources(kind: str, seed: int) -> dict[str, Tensor]:
    return {
        "w": weight(kind, 200, 256, seed=seed),
        "u": weight(kind, 64, 256, seed=seed + 1),
        "bias": weight("F32", 200, seed=seed + 2),
        "image": weight("F32", 8, 3, 3, 8, seed=seed + 3),
    }


def stage(backend: CpuBackend, kind: str) -> Any:
    return backend.stage({name: (each.type, each.shape) for name, each in sources(kind, 0).items()})


def bring(staged: Any, weights: dict[str, Tensor]) -> None:
    for name, each in weights.items():
        if len(each.shape) == 2:
            step = staged.part_rows(name, 20_000)
            for first in range(0, each.shape[0], step):
                staged.bring(name, first, each.part(first, min(step, each.shape[0] - first)))
        else:
            staged.put(name, each.float32())


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_equal_one_go_and_staged_weights_their_sources(backend: CpuBackend, kind: str) -> None:
    x = activations(200, 256)
    staged = stage(backend, kind)
    recording = layer(staged.tensors, 200)
    program = backend.compile(recording)
    program.inputs["x"][:] = x
    for seed in (0, 10):  # a second layer's in the place of the first's
        bring(staged, sources(kind, seed))
        slices = program.slices({"rows": 190})
        pieces = 0
        while not slices.done:
            slices.advance(0.0)
            pieces += 1
        assert pieces >= len(recording.commands) - 1
        expected = backend.compile(layer(sources(kind, seed), 200))
        expected.inputs["x"][:] = x
        expected.run({"rows": 190})
        for name in recording.outputs:
            np.testing.assert_array_equal(program.output(name), expected.output(name))


@pytest.mark.parametrize("seconds", [3e-5, 1e-4, 3e-4, 1e-3, 1.0])
def test_pieces_of_any_length_equal_one_go(backend: CpuBackend, seconds: float) -> None:
    x = activations(300, 256)
    recording = layer(sources("F32", 0), 300)
    program, whole = backend.compile(recording), backend.compile(layer(sources("F32", 0), 300))
    whole.inputs["x"][:] = program.inputs["x"][:] = x
    whole.run({"rows": 300})
    for _ in range(4):  # how long commands take is known better each time
        for name in recording.outputs:
            program.output(name)[:] = 0
        slices = program.slices({"rows": 300})
        while not slices.done:
            slices.advance(seconds)
        for name in recording.outputs:
            np.testing.assert_array_equal(program.output(name), whole.output(name))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seconds", [0.0, 1e-4, 1.0])
def test_the_work_of_attention_is_counted_in_keys_that_queries_see(
    backend: CpuBackend, monkeypatch: pytest.MonkeyPatch, causal: bool, seconds: float
) -> None:
    """What a row takes is not the same in replays of more rows, nor in later rows."""
    if backend.kernels is None:
        pytest.skip("torch twins are not cut")
    recording = Recording()
    axis = recording.axis("rows", 400)
    q, k, v = (recording.input(name, axis, heads, 16, dtype="f32") for name, heads in (("q", 4), ("k", 2), ("v", 2)))
    recording.output("x", ops.full_attention(q, k, v, scale=0.1, causal=causal))
    program = backend.compile(recording)
    counted: list[int] = []
    learn = program.rates.learn

    def counting(works: list[tuple[Any, int]], taken: float) -> None:
        counted.extend(work for _, work in works)
        learn(works, taken)

    monkeypatch.setattr(program.rates, "learn", counting)
    for rows in (400, 30, 1):
        counted.clear()
        slices = program.slices({"rows": rows})
        while not slices.done:
            slices.advance(seconds)
        assert sum(counted) == 2 * (rows * (rows + 1) // 2 if causal else rows * rows)


def test_attention_without_keys_is_an_error(backend: CpuBackend) -> None:
    if backend.kernels is None:
        pytest.skip("torch gives zeros")
    recording = Recording()
    q = recording.input("q", recording.axis("queries", 5), 2, 16, dtype="f32")
    k = recording.input("k", recording.axis("keys", 5), 2, 16, dtype="f32")
    recording.output("x", ops.full_attention(q, k, k, scale=0.1))
    slices = backend.compile(recording).slices({"queries": 5, "keys": 0})
    with pytest.raises(library.KernelError, match="index"):
        slices.advance(1.0)


def test_no_rows_at_all(backend: CpuBackend) -> None:
    slices = backend.compile(layer(sources("F32", 0), 10)).slices({"rows": 0})
    slices.advance(1.0)
    assert slices.done


def test_long_commands_are_cut(backend: CpuBackend) -> None:
    if backend.kernels is None:
        pytest.skip("torch twins are not cut")
    recording = layer(sources("F32", 0), 400)
    slices = backend.compile(recording).slices({"rows": 400})
    count = 0
    while not slices.done:
        slices.advance(0.0)
        count += 1
    assert count > 3 * len(recording.commands)


def test_programs_beside_each_other_share_memory_and_no_values(backend: CpuBackend) -> None:
    x = activations(50, 256)
    programs, beside = [], None
    for seed in (0, 10):
        weights = sources("Q8_0", seed)
        beside = backend.compile(layer(weights, 50), beside=beside)
        alone = backend.compile(layer(weights, 50))
        programs.append((beside, alone))
    assert programs[0][0].inputs["x"].ctypes.data == programs[1][0].inputs["x"].ctypes.data
    for shared, alone in programs:
        for program in (shared, alone):
            program.inputs["x"][:] = x
            program.run({"rows": 50})
        np.testing.assert_array_equal(shared.output("image"), alone.output("image"))
    wider = backend.compile(layer(sources("Q8_0", 0), 60), beside=programs[0][0])
    assert wider.inputs["x"].ctypes.data != programs[0][0].inputs["x"].ctypes.data
