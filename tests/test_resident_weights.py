"""Weights brought into memory: the same bits, the file's pages given back, products of one input side by side."""

from __future__ import annotations

import gc
import mmap
import re
import weakref
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.devices.cpu.lowering import Lowering
from golem_host.devices.cpu.resident import multipliers
from golem_host.devices.cpu.together import together
from golem_host.kernels import library
from golem_host.kernels.library import Op as Kernel
from golem_host.ops import Recording, Ref, Weighting
from golem_host.weights.pages import drop_pages
from golem_host.weights.tensor import Tensor
from ops_checks import activations, weight
from test_ops_native import TYPES

pytestmark = pytest.mark.skipif(library.load() is None, reason="the native kernels were not built")


def ignore(_: float) -> None:
    pass


def recorded(width: int, *weights: Tensor) -> Recording:
    """Every matrix times the same input; an expert matrix times it by the routes that the first one gives."""
    recording = Recording()
    x = recording.input("x", recording.axis("rows", 9), width, dtype="f32")
    for matrix in weights:
        if len(matrix.shape) == 2:
            recording.output(matrix.name, ops.linear(x, matrix))
        else:
            routes = ops.route(ops.linear(x, weights[0]), 2, Weighting.SOFTMAX_CHOSEN)
            recording.output(matrix.name, ops.expert_linear(x, routes, matrix))
            recording.output("some rows", ops.expert_linear(x, routes, matrix, range(7, 19)))
    return recording


def results(backend: CpuBackend, recording: Recording, x: NDArray[np.float32]) -> list[bytes]:
    program = backend.compile(recording)
    program.inputs["x"][: len(x)] = x
    program.run({"rows": len(x)})
    return [program.output(name).tobytes() for name in recording.outputs]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("rows", [1, 16, 37])
def test_products_have_the_same_bits(kind: str, rows: int) -> None:
    matrix, x = weight(kind, rows, 512), activations(9, 512)
    recording = recorded(512, matrix)
    prepared = CpuBackend(threads=2)
    prepared.prepare(recording, ignore)
    assert prepared.resident(matrix).data is not matrix.data
    assert results(prepared, recording, x) == results(CpuBackend(threads=2), recording, x)


@pytest.mark.parametrize("rows", [32, 20])  # whole tiles, and matrices that are not
def test_experts_have_the_same_bits(rows: int) -> None:
    recording = recorded(256, weight("F32", 5, 256), weight("Q4_K", 5, rows, 256))
    prepared, x = CpuBackend(threads=2), activations(9, 256)
    prepared.prepare(recording, ignore)
    assert results(prepared, recording, x) == results(CpuBackend(threads=1), recording, x)


def test_without_repack_weights_stay_where_they_are() -> None:
    matrix = weight("Q4_0", 32, 64)
    backend = CpuBackend(threads=1, repack=False)
    backend.prepare(recorded(64, matrix), ignore)
    assert backend.resident(matrix).data is matrix.data


def test_progress_goes_from_nothing_to_all() -> None:
    seen: list[float] = []
    CpuBackend(threads=1).prepare(recorded(64, *(weight("Q8_0", 32, 64, seed=n) for n in range(5))), seen.append)
    assert len(seen) == 5 and seen == sorted(seen) and seen[-1] == 1


def test_memory_is_given_back_with_the_tensors() -> None:
    backend, matrix = CpuBackend(threads=1), weight("Q4_0", 32, 64)
    recording = recorded(64, matrix)
    backend.prepare(recording, ignore)
    program = weakref.ref(backend.compile(recording))
    memory = weakref.ref(backend.resident(matrix).data.base)
    del matrix, recording
    gc.collect()
    assert program() is None and memory() is None


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="no madvise here")
def test_dropped_pages_are_read_again(tmp_path: Path) -> None:
    content = np.random.default_rng(0).integers(0, 256, 64 * mmap.PAGESIZE, np.uint8)
    path = tmp_path / "weights"
    path.write_bytes(content.tobytes())
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    array = np.frombuffer(mapping, np.uint8)
    assert int(array.sum()) and resident(path) == 64 * mmap.PAGESIZE
    drop_pages(array[100 : -mmap.PAGESIZE])
    assert resident(path) <= 20 * mmap.PAGESIZE  # the first and last page, and what the system maps around them
    assert np.array_equal(array, content)


def test_arrays_that_are_no_mapping_are_left_alone() -> None:
    drop_pages(np.zeros(1 << 20, np.uint8)[4096:])


def resident(path: Path) -> int:
    """Bytes of the file that this process has mapped and touched."""
    maps = Path("/proc/self/smaps").read_text()
    return sum(int(kib) * 1024 for kib in re.findall(rf"{re.escape(str(path))}\n.*?\nRss: +(\d+) kB", maps, re.DOTALL))


def test_products_of_one_input_run_together() -> None:
    """With norms between them, and one that reads what another gives."""
    q, k, v, out = (weight("Q4_0", rows, 64, seed=rows) for rows in (64, 32, 16, 48))
    recording = Recording()
    x = recording.input("x", recording.axis("rows", 9), 64, dtype="f32")

    def normed(y: Ref) -> Ref:
        return ops.rms_norm(y, None, 1e-6)

    recording.output("q", normed(ops.linear(x, q)))
    recording.output("k", normed(ops.linear(x, k)))
    recording.output("v", ops.linear(x, v))
    recording.output("out", ops.linear(recording.outputs["q"], out))
    assert multipliers(recording) == [q, k, v, out]
    kernels = library.load()
    assert kernels is not None
    backend = CpuBackend(threads=2)
    lowering = Lowering(kernels, backend.resident)
    for command in recording.commands:
        lowering.lower(command)
    steps = together(lowering.steps)
    assert [(step.kernel, step.with_next) for step in steps] == [
        (Kernel.ACT, False),
        (Kernel.MATMUL, True),
        (Kernel.MATMUL, True),
        (Kernel.MATMUL, False),
        (Kernel.RMS_NORM, False),
        (Kernel.RMS_NORM, False),
        (Kernel.ACT, False),
        (Kernel.MATMUL, False),
    ]
    alone = [results(CpuBackend(threads=1), recorded(64, matrix), activations(9, 64))[0] for matrix in (k, v)]
    together_ = results(backend, recording, activations(9, 64))
    assert together_[2] == alone[1]
    assert results(CpuBackend(threads=3), recording, activations(9, 64)) == together_
