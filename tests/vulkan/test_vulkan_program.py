"""Recordings on a device: twins between dispatches, live rows, names, checks of what a pass is given."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cell_checks import SPANS, check_saved_cells_come_back
from golem_host import ops
from golem_host.devices.vulkan import lower as lowering
from golem_host.devices.vulkan.backend import VulkanBackend
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.ops import CacheType, Recording
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType


@pytest.fixture
def backend(gpu: Gpu) -> VulkanBackend:
    return VulkanBackend(gpu)


def tensor(values: np.ndarray, name: str = "table") -> Tensor:
    """A float32 tensor as a file would have it."""
    data = np.ascontiguousarray(values, np.float32).view(np.uint8).reshape(-1)
    return Tensor(name, values.shape, GgmlType.F32, Path("none"), (GgmlType.F32, data))


@pytest.mark.parametrize("shaders", [True, False])
def test_a_third_party_function_runs_between_what_the_device_computes(
    backend: VulkanBackend, shaders: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shaders:
        monkeypatch.setattr(lowering, "TABLE", {})
    table = tensor(np.arange(28).reshape(7, 4) / 8)
    recording = Recording()
    rows = recording.axis("rows", 5)
    ids = recording.input("ids", rows)
    x = ops.rows(table, ids)
    doubled = ops.add(x, x)
    turned = ops.torch_op(
        lambda a, b, w: a.flip(-1) + b[:, None] + w.float32()[0, 1], doubled, ids, table, axis=rows, shape=(4,)
    )
    recording.output("both", ops.add(turned, doubled))
    recording.output("turned", turned)
    program = backend.compile(recording)
    for given in ([3, 0, 6], [1, 1, 1, 1, 2], []):
        program.inputs["ids"][: len(given)] = given
        program.run({"rows": len(given)})
        x = 2 * table.float32()[np.array(given, int)]
        turned_too = x[:, ::-1] + np.array(given, np.float32)[:, None] + np.float32(0.125)
        np.testing.assert_array_equal(program.output("turned"), turned_too)
        np.testing.assert_array_equal(program.output("both"), turned_too + x)


def test_named_intermediates_are_read_after_the_pass_and_after_another(backend: VulkanBackend) -> None:
    table = tensor(np.arange(12).reshape(4, 3))

    def program(keep: bool) -> Any:
        recording = Recording(keep_names=keep)
        ids = recording.input("ids", recording.axis("rows", 4))
        x = ops.scale(ops.rows(table, ids), 0.5).named("half")
        recording.output("out", ops.scale(x, 4.0))
        return backend.compile(recording)

    kept, plain = program(True), program(False)
    for each, ids in ((kept, [2, 1]), (plain, [3, 3])):
        each.inputs["ids"][:2] = ids
        each.run({"rows": 2})
    np.testing.assert_array_equal(kept.read("half"), table.float32()[[2, 1]] / 2)
    np.testing.assert_array_equal(plain.output("out"), table.float32()[[3, 3]] * 2)
    with pytest.raises(ValueError, match="keep_names"):
        plain.read("half")


def test_what_is_not_there_is_refused_before_anything_runs(backend: VulkanBackend) -> None:
    table = tensor(np.ones((4, 32)))
    cache = backend.cache(slots=2, cells=8, kv_heads=1, key_dim=32, value_dim=32)
    recording = Recording()
    rows, wanted = recording.axis("rows", 4), recording.axis("wanted", 4)
    ids, slots, positions = (recording.input(name, rows) for name in ("ids", "slots", "positions"))
    x = ops.rows(table, ids)
    ops.cache_store(cache, x, x, slots, positions)
    mixed = ops.attention(x.reshape(1, 32), cache, slots, positions, scale=1.0)
    recording.output("out", ops.select(mixed, recording.input("which", wanted)))
    program = backend.compile(recording)
    good = {"ids": [0, 3], "slots": [1, 1], "positions": [0, 1], "which": [1]}

    def run(**changed: list[int]) -> None:
        for name, values in (good | changed).items():
            program.inputs[name][: len(values)] = values
        program.run({"rows": 2, "wanted": 1})

    run()
    before = cache.read(1, np.arange(2))
    for changed in ({"ids": [0, 4]}, {"ids": [-1, 0]}, {"slots": [1, 2]}, {"slots": [-1, 0]}, {"positions": [0, -1]}):
        with pytest.raises(IndexError):
            run(**changed)
    with pytest.raises(IndexError):
        run(which=[2])
    with pytest.raises(ValueError, match="5 rows"):
        program.run({"rows": 5, "wanted": 1})
    np.testing.assert_array_equal(cache.read(1, np.arange(2)), before)
    run()
    np.testing.assert_array_equal(program.output("out"), np.ones((1, 1, 32), np.float32))


def test_slots_are_copied(backend: VulkanBackend) -> None:
    cache = backend.cache(slots=3, cells=5, kv_heads=2, key_dim=4, value_dim=6)
    random = np.random.default_rng(1)
    keys, values = random.standard_normal((2, 4), np.float32), random.standard_normal((2, 6), np.float32)
    cache.write(0, 7, keys, values)
    cache.copy_slot(0, 2)
    for slot, there in ((0, True), (1, False), (2, True)):
        found = cache.read(slot, np.array([7]))
        np.testing.assert_array_equal(found[0][:, 0], keys.astype(np.float16) * np.float32(there))
        np.testing.assert_array_equal(found[1][:, 0], values.astype(np.float16) * np.float32(there))


@pytest.mark.parametrize("span", SPANS)
def test_saved_cells_come_back(backend: VulkanBackend, span: tuple[int, int, int]) -> None:
    check_saved_cells_come_back(backend, *span, CacheType.F16)


def test_states_are_copied_saved_and_restored(backend: VulkanBackend) -> None:
    state = backend.state(slots=3, shape=(2, 3))
    with state.on_host() as host:
        host.values[1] = torch.arange(6).reshape(2, 3)
    state.taken[1] = 9
    saved = state.save(1)
    state.copy_slot(1, 2)
    state.restore(0, saved)
    for slot in range(3):
        np.testing.assert_array_equal(state.read(slot), np.arange(6, dtype=np.float32).reshape(2, 3))
        assert state.taken[slot] == 9 == saved.position
    with pytest.raises(ValueError, match="shape"):
        backend.state(slots=1, shape=(3, 2)).restore(0, saved)


def test_working_memory_is_given_back_with_the_model_it_was_taken_for(backend: VulkanBackend) -> None:
    def claimed() -> int:
        gc.collect()
        return sum(size for _, size in backend.gpu._claims.values())

    def model(rows: int) -> tuple[Any, Any]:
        recording = Recording()
        axis = recording.axis("rows", rows)
        x = ops.rows(tensor(np.ones((7, 64))), recording.input("ids", axis))
        recording.output("sum", ops.add(ops.add(x, x), x))
        backend.prepare(recording, lambda share: None)
        return recording, backend.compile(recording)

    before = claimed()
    small = model(64)
    of_small = claimed()
    large = model(32 << 10)
    shared = model(64)
    assert claimed() > of_small + (32 << 10) * 64 * 4
    shared[1].run({"rows": 64})
    del large, shared
    small[1].run({"rows": 64})
    assert claimed() == of_small
    assert (small[1].output("sum") == 3).all()
    del small
    assert claimed() == before
