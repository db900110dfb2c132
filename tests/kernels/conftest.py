"""What the kernel tests share: the library at every instruction set of this machine, random weights, references."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host.kernels import library
from golem_host.kernels.library import Act, Kernels, Op

Array = NDArray[Any]
QuantType = gguf.GGMLQuantizationType

HALF_FIELDS = {
    # byte offsets of the half-precision scales in a block
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "IQ4_NL": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_XS": (0,),
}
BLOCK_TYPES = tuple(HALF_FIELDS)
FLOAT_TYPES = ("F32", "F16", "BF16")
ISAS = ("generic", "avx2", "avx512-vnni")


def random_weights(rng: np.random.Generator, type_name: str, m: int, k: int) -> Array:
    """m packed rows of k random values, uint8 (m, bytes): any bytes, with scales of sensible size."""
    block, size = gguf.GGML_QUANT_SIZES[QuantType[type_name]]
    if type_name in FLOAT_TYPES:
        values = rng.standard_normal((m, k)).astype(np.float32)
        return gguf.quants.quantize(values, QuantType[type_name]).view(np.uint8).reshape(m, k * size)
    data = rng.integers(0, 256, (m, k // block, size), dtype=np.uint8)
    for at in HALF_FIELDS[type_name]:
        scale = rng.uniform(-0.02, 0.02, (m, k // block)).astype(np.float16)
        data[:, :, at : at + 2] = scale[..., None].view(np.uint8)
    return data.reshape(m, -1)


def dequantized(type_name: str, weights: Array) -> Array:
    """gguf-py's values of packed rows, float32 (m, k)."""
    if type_name == "F32":
        return weights.view(np.float32)
    if type_name == "F16":
        return weights.view(np.float16).astype(np.float32)
    return gguf.quants.dequantize(weights, QuantType[type_name])


def quantized_input(kind: Act, x: Array) -> tuple[Array, Array]:
    """What the kernels multiply with instead of x (rows, n), and instead of the sums of each block that offsets are
    multiplied with; float64. The second differs from the sums of the first only for Q8_1, which rounds them."""
    if kind == Act.F32:
        values = x.astype(np.float64)
    elif kind == Act.F16:
        values = x.astype(np.float16).astype(np.float64)
    elif kind == Act.BF16:
        bits = x.view(np.uint32)
        values = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32).astype(np.float64)
    else:
        return _quantized_blocks(kind, x)
    return values, values


def _quantized_blocks(kind: Act, x: Array) -> tuple[Array, Array]:
    n = 256 if kind == Act.Q8_K else 32
    blocks = x.reshape(x.shape[0], -1, n)
    if kind == Act.Q8_K:
        at = np.abs(blocks).argmax(-1)[..., None]
        extreme = np.take_along_axis(blocks, at, -1)
        inverse = np.divide(np.float32(-127), extreme, out=np.zeros_like(extreme), where=extreme != 0)
        d = np.divide(np.float32(1), inverse, out=np.zeros_like(inverse), where=inverse != 0)
        exact = d
    else:
        extreme = np.abs(blocks).max(-1, keepdims=True)
        inverse = np.divide(np.float32(127), extreme, out=np.zeros_like(extreme), where=extreme != 0)
        exact = extreme / np.float32(127)
        d = exact.astype(np.float16).astype(np.float32)
    q = np.minimum(np.rint(blocks * inverse), np.float32(127))
    values = (q.astype(np.float64) * d).reshape(x.shape)
    sums = (
        (exact * q.sum(-1, keepdims=True)).astype(np.float16)
        if kind == Act.Q8_1
        else d.astype(np.float64) * q.sum(-1, keepdims=True)
    )
    return values, np.broadcast_to(sums.astype(np.float64) / n, blocks.shape).reshape(x.shape)


class Runner:
    """Runs single commands of one library on one pool."""

    def __init__(self, kernels: Kernels, threads: int = 2) -> None:
        self.kernels = kernels
        self.pool = kernels.pool(threads)

    def command(
        self,
        op: Op,
        rows: int,
        p: Sequence[Array | None],
        i: Sequence[int] = (),
        f: Sequence[float] = (),
        axis: int = -1,
    ) -> Any:
        """One `golem_cmd`; the arrays must outlive it."""
        ffi = self.kernels.ffi
        cmds = ffi.new("golem_cmd[1]")
        cmds[0].op, cmds[0].axis, cmds[0].rows = int(op), axis, rows
        for slot, array in enumerate(p):
            cmds[0].p[slot] = ffi.NULL if array is None else ffi.cast("void *", array.ctypes.data)
        for slot, value in enumerate(i):
            cmds[0].i[slot] = int(value)
        for slot, value in enumerate(f):
            cmds[0].f[slot] = value
        return cmds

    def run(self, op: Op, rows: int, p: Sequence[Array | None], i: Sequence[int] = (), f: Sequence[float] = ()) -> None:
        self.pool.run(self.command(op, rows, p, i, f), 1, self.kernels.ffi.NULL)

    def activations(self, kind: int, x: Array) -> Array:
        """x f32 (rows, n) as activation rows (rows, bytes)."""
        rows, n = x.shape
        out = np.zeros((rows, self.kernels.act_bytes(kind, n)), np.uint8)
        self.run(Op.ACT, rows, [out, x], [n, kind])
        return out

    def product(self, type_name: str, x: Array, weights: Array, bias: Array | None = None) -> Array:
        """x f32 (rows, k) times packed weights, (rows, m)."""
        kind = self.kernels.act_kind(QuantType[type_name])
        acts = self.activations(kind, x)
        out = np.full((x.shape[0], weights.shape[0]), np.nan, np.float32)
        self.run(
            Op.MATMUL, x.shape[0], [out, acts, weights, bias], [weights.shape[0], x.shape[1], QuantType[type_name]]
        )
        return out


@pytest.fixture(scope="session")
def load_isa(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Kernels]:
    """Loads the library once more for an instruction set: a copy of the file has its own state."""
    path = library.library_path()
    known: dict[str, Kernels] = {}

    def load(isa: str) -> Kernels:
        if not path.is_file():
            pytest.skip(library.why_missing())
        if isa not in known:
            copy = Path(shutil.copy(path, tmp_path_factory.mktemp("kernels") / f"lib{isa}.so"))
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(os.environ, "GOLEM_ISA", isa)
                try:
                    known[isa] = Kernels(copy)
                except library.LibraryError as error:
                    pytest.skip(str(error))
        return known[isa]

    return load


@pytest.fixture(scope="session", params=ISAS)
def kernels(request: pytest.FixtureRequest, load_isa: Callable[[str], Kernels]) -> Kernels:
    return load_isa(request.param)


@pytest.fixture(scope="session")
def runner(kernels: Kernels) -> Iterator[Runner]:
    runner = Runner(kernels)
    yield runner
    runner.pool.close()
