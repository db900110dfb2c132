"""What the kernel tests share: the library at every instruction set of this machine, random weights, references."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

import kernel_replay
from golem_host.kernels import library
from golem_host.kernels.library import Act, Kernels, Op
from golem_host.weights.dequant import dequantize
from golem_host.weights.types import GgmlType
from kernel_replay import ReplayKernels

Array = NDArray[Any]

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
    "TQ1_0": (52,),
    "TQ2_0": (64,),
    "MXFP4": (),
    "Q1_0": (0,),
    "Q2_0": (0,),
    "PQ2_0": (0,),
    "PTQ1_0": (26,),
}
BLOCK_TYPES = tuple(HALF_FIELDS)
FLOAT_TYPES = ("F32", "F16", "BF16")
VECTORS = {"x86_64": ("avx2", "avx512-vnni", "avx512-bf16"), "aarch64": ("neon",), "arm64": ("neon",)}
ISAS = ("generic", *VECTORS.get(platform.machine(), ()), *(f"replay-{isa}" for isa in kernel_replay.ISAS))


class Weights:
    """m packed rows of k random weights of one type: `packed` uint8 (m, bytes); `values` float32 (m, k) as gguf-py
    reads them, or this host's dequantizer for the types that gguf-py lacks. Scales of MXFP4 are 2^(exponent - 128)."""

    def __init__(self, rng: np.random.Generator, type_name: str, m: int, k: int, exponent: int = 122) -> None:
        self.type = GgmlType[type_name]
        if type_name in FLOAT_TYPES:
            values = rng.standard_normal((m, k)).astype(np.float32)
            kind = gguf.GGMLQuantizationType(self.type)
            self.packed = gguf.quants.quantize(values, kind).view(np.uint8).reshape(m, -1)
        else:
            blocks = (m, k // self.type.block_size)
            data = rng.integers(0, 256, (*blocks, self.type.block_bytes), dtype=np.uint8)
            for at in HALF_FIELDS[type_name]:
                scale = rng.uniform(-0.02, 0.02, blocks).astype(np.float16)
                data[:, :, at : at + 2] = scale[..., None].view(np.uint8)
            if self.type is GgmlType.MXFP4:
                data[:, :, 0] = np.clip(rng.integers(exponent - 3, exponent + 4, blocks), 0, 255)
            self.packed = data.reshape(m, -1)
        self.values = self._dequantized().reshape(m, k)

    def _dequantized(self) -> Array:
        if self.type is GgmlType.F32:
            return self.packed.view(np.float32)
        if self.type is GgmlType.F16:
            return self.packed.view(np.float16).astype(np.float32)
        try:
            return gguf.quants.dequantize(self.packed, gguf.GGMLQuantizationType(self.type))
        except (NotImplementedError, ValueError):
            values = dequantize(self.type, self.packed.reshape(-1))
            assert values is not None
            return values

    def offsets(self) -> Array:
        """The offset m of every weight of a type that is multiplied with Q8_1 rows, float64 (m, k)."""
        blocks = self.packed.reshape(len(self.packed), -1, self.type.block_bytes)
        m = blocks[:, :, 2:4].copy().view(np.float16)[..., 0]
        return np.repeat(m.astype(np.float64), self.type.block_size, -1)


class Quantized:
    """x float32 (rows, n) quantized to an activation kind, after ggml's rounding on x86.

    `codes` int8 (rows, n), `scales` float32 and `sums` (of codes; Q8_1: float32 scale * sum, rounded to half), both
    (rows, blocks), for the Q8 kinds; `values` float64 (rows, n): what is multiplied.
    """

    def __init__(self, kind: Act, x: Array) -> None:
        if kind in (Act.F32, Act.F16):
            self.values = x.astype(np.float16 if kind is Act.F16 else np.float32).astype(np.float64)
        elif kind is Act.BF16:
            bits = x.view(np.uint32)
            self.values = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32).astype(np.float64)
        else:
            self._quantize(kind, x)

    def _quantize(self, kind: Act, x: Array) -> None:
        blocks = x.reshape(len(x), -1, 256 if kind is Act.Q8_K else 32)
        at = np.abs(blocks).argmax(-1)[..., None]
        extreme = np.take_along_axis(blocks, at, -1)
        if kind is not Act.Q8_K:
            extreme = np.abs(extreme)
        by = np.float32(-127 if kind is Act.Q8_K else 127)
        inverse = np.divide(by, extreme, out=np.zeros_like(extreme), where=extreme != 0)
        codes = np.minimum(np.rint(blocks * inverse), np.float32(127))
        if kind is Act.Q8_K:
            exact = np.divide(np.float32(1), inverse, out=np.zeros_like(inverse), where=inverse != 0)
        else:
            exact = extreme / by
        scales = exact if kind is Act.Q8_K else exact.astype(np.float16).astype(np.float32)
        self.values = (codes.astype(np.float64) * scales).reshape(x.shape)
        self.codes, self.scales = codes.astype(np.int8).reshape(x.shape), scales[..., 0]
        self.sums = codes.sum(-1)
        if kind is Act.Q8_1:
            self.sums = (exact[..., 0] * self.sums).astype(np.float16).astype(np.float32)


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
            cmds[0].p[slot] = ffi.NULL if array is None else self.pointer(array)
        for slot, value in enumerate(i):
            cmds[0].i[slot] = int(value)
        for slot, value in enumerate(f):
            cmds[0].f[slot] = value
        return cmds

    def pointer(self, array: Array) -> Any:
        """What a command is given of an array."""
        if isinstance(self.kernels, ReplayKernels):
            self.kernels.remember(array)
        return self.kernels.ffi.cast("void *", array.ctypes.data)

    def run(self, op: Op, rows: int, p: Sequence[Array | None], i: Sequence[int] = (), f: Sequence[float] = ()) -> None:
        self.pool.run(self.command(op, rows, p, i, f), 1, self.kernels.ffi.NULL)

    def run_all(self, commands: Sequence[tuple[Any, ...]]) -> None:
        """Several commands, each the arguments of `run`, as one pass."""
        ffi = self.kernels.ffi
        cmds = ffi.new("golem_cmd[]", len(commands))
        for at, arguments in enumerate(commands):
            command = self.command(*arguments)  # owns what is copied
            cmds[at] = command[0]
        self.pool.run(cmds, len(commands), ffi.NULL)

    def activations(self, kind: int, x: Array) -> Array:
        """x f32 (rows, n) as activation rows (rows, bytes)."""
        rows, n = x.shape
        out = np.zeros((rows, self.kernels.act_bytes(kind, n)), np.uint8)
        self.run(Op.ACT, rows, [out, x], [n, kind])
        return out

    def product(self, weights: Weights, x: Array, bias: Array | None = None) -> Array:
        """x f32 (rows, k) times the weights, (rows, m)."""
        m = len(weights.packed)
        activations = self.activations(self.kernels.act_kind(weights.type), x)
        out = np.full((len(x), m), np.nan, np.float32)
        self.run(Op.MATMUL, len(x), [out, activations, weights.packed, bias], [m, x.shape[1], weights.type])
        return out


@pytest.fixture(scope="session")
def load_isa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Kernels]]:
    """Loads the library once more for an instruction set: a copy of the file has its own state."""
    path = library.library_path()
    known: dict[str, Kernels] = {}

    def load(isa: str) -> Kernels:
        if not path.is_file():
            pytest.skip(library.why_missing())
        if isa not in known:
            copy = Path(shutil.copy(path, tmp_path_factory.mktemp("kernels") / f"lib{isa}.so"))
            replayed = isa.removeprefix("replay-")
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(os.environ, "GOLEM_ISA", isa if replayed == isa else "generic")
                try:
                    known[isa] = Kernels(copy) if replayed == isa else ReplayKernels(copy, replayed)
                except library.LibraryError as error:
                    pytest.skip(str(error))
        return known[isa]

    yield load
    for kernels in known.values():
        if isinstance(kernels, ReplayKernels):
            kernels.close()


@pytest.fixture(scope="session", params=ISAS)
def kernels(request: pytest.FixtureRequest, load_isa: Callable[[str], Kernels]) -> Kernels:
    """The library at each instruction set of this machine."""
    return load_isa(request.param)


@pytest.fixture(scope="session")
def runner(kernels: Kernels) -> Iterator[Runner]:
    """Two threads at each instruction set."""
    runner = Runner(kernels)
    yield runner
    runner.pool.close()


@pytest.fixture(scope="session")
def vector_runners(load_isa: Callable[[str], Kernels]) -> Iterator[list[Runner]]:
    """Runners at all instruction sets that have vectors."""
    runners = [Runner(load_isa(isa)) for isa in ISAS if not isa.endswith("generic")]
    yield runners
    for runner in runners:
        runner.pool.close()


@pytest.fixture(scope="session")
def portable(load_isa: Callable[[str], Kernels]) -> Iterator[Runner]:
    """One thread of portable code."""
    runner = Runner(load_isa("generic"), threads=1)
    yield runner
    runner.pool.close()


@pytest.fixture
def make_runner(kernels: Kernels) -> Iterator[Callable[[int], Runner]]:
    """Makes runners of a number of threads."""
    made: list[Runner] = []

    def make(threads: int) -> Runner:
        made.append(Runner(kernels, threads))
        return made[-1]

    yield make
    for runner in made:
        runner.pool.close()


@pytest.fixture(params=BLOCK_TYPES + FLOAT_TYPES)
def weight_type(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=BLOCK_TYPES)
def block_type(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def make_weights() -> type[Weights]:
    return Weights


@pytest.fixture(scope="session")
def quantized() -> type[Quantized]:
    return Quantized


@pytest.fixture(scope="session")
def guarded() -> Callable[..., Array]:
    """Copies an array to the end of a page that is followed by one nobody may touch; `after=True`: to the start of a
    page that follows such a one."""
    libc = ctypes.CDLL(None, use_errno=True)

    def copy(array: Array, after: bool = False) -> Array:
        size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, size + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        guard, at = (0, mmap.PAGESIZE) if after else (size, size - array.nbytes)
        assert libc.mprotect(ctypes.c_void_p(start + guard), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
        result = np.frombuffer(memory, np.uint8, array.nbytes, at).view(array.dtype).reshape(array.shape)
        result[...] = array
        return result

    return copy
