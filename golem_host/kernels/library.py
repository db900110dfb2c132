"""Binding to the native CPU kernels (cffi, ABI mode: calls release the GIL).

The shared library lies beside this file, or where the environment variable GOLEM_KERNELS_LIBRARY says. GOLEM_ISA lowers
the instruction set it uses ("generic", "avx2", "avx512-vnni", "avx512-bf16"; on AArch64 "generic", "neon").
`src/golem_kernels.h` is the contract: it says what every slot of every command means.
"""

from __future__ import annotations

import math
import os
import sys
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

import cffi
import numpy as np
from numpy.typing import NDArray

import golem_host.kernels

ABI = 5
"""GOLEM_ABI of the header this binding was written for."""

CDEF = """
typedef struct golem_pool golem_pool;
typedef struct golem_cmd {
  int32_t op;
  int32_t axis;
  int64_t rows;
  void *p[8];
  int64_t i[16];
  double f[8];
} golem_cmd;
typedef struct golem_route {
  int32_t expert;
  float weight;
} golem_route;
typedef struct golem_draw_rules {
  int64_t top_k;
  int64_t min_keep;
  float top_p;
  float ln_min_p;
  float temperature;
} golem_draw_rules;
int golem_abi(void);
const char *golem_isa(void);
const char *golem_error_text(int code);
int golem_act_kind(int ggml_type);
int64_t golem_act_bytes(int kind, int64_t n);
int64_t golem_tile_rows(int ggml_type);
int64_t golem_laid_bytes(int ggml_type, int64_t m, int64_t k);
golem_pool *golem_pool_new(int threads);
void golem_pool_free(golem_pool *pool);
int golem_run(golem_pool *pool, const golem_cmd *cmds, int64_t n, const int64_t *live, int64_t *failed_at);
int golem_top_k(const float *x, const float *maxima, int64_t n, int64_t k, int32_t *index, float *value);
int64_t golem_draw(const float *x, const float *maxima, int64_t n, const golem_draw_rules *rules, double share);
int golem_walk_strings(const uint8_t *buf, int64_t size, int64_t at, int64_t count, int64_t *offsets);
"""
"""The header's declarations that this binding uses; a test compares the two."""


MAXIMA_BLOCK = 512
"""Values that `Op.BLOCK_MAXIMA` takes together."""


class Op(IntEnum):
    """Opcodes (`golem_cmd.op`). Pointer, integer and float slots: see the header."""

    ROWS = 1
    ACT = 2
    MATMUL = 3
    RMS_NORM = 4
    ROPE_ANGLES = 5
    ROPE = 6
    STORE = 7
    ATTN = 8
    GATE = 9
    ADD = 10
    MUL = 11
    SCALE = 12
    SOFTCAP = 13
    SELECT = 14
    COPY = 15
    CONV = 16
    DELTA = 17
    ROUTE = 18
    EXPERTS = 19
    MIX = 20
    L2_NORM = 21
    DECAY = 22
    LAY = 23
    LAYER_NORM = 24
    TEXT_ATTN = 25
    MEAN = 26
    BLOCK_MAXIMA = 27
    ARG_LARGEST = 28
    TEMPERATURE = 29
    HADAMARD = 30
    WINDOWS = 31
    FULL_ATTN = 32
    CONV2D = 33


class Act(IntEnum):
    """How an activation row is stored; `Kernels.act_kind` says which a weight type wants."""

    F32 = 0
    Q8_0 = 1
    Q8_1 = 2
    Q8_K = 3
    F16 = 4
    BF16 = 5


class RopeStyle(IntEnum):
    """Which values a rotation pairs."""

    NORM = 0
    NEOX = 1


class RopeAxes(IntEnum):
    """Which of a row's positions turns each pair."""

    ONE = 0
    SECTIONED = 1
    INTERLEAVED = 2


class GateKind(IntEnum):
    """Activation of a gate."""

    SILU = 0
    GELU_TANH = 1
    SIGMOID = 2
    GELU_ERF = 3
    RELU = 4
    ELU = 5
    GELU_TANH_F32 = 6


class Weighting(IntEnum):
    """How router logits become weights of the chosen experts."""

    SOFTMAX = 0
    SOFTMAX_CHOSEN = 1
    SIGMOID = 2


class LibraryError(RuntimeError):
    """A library file is there but cannot be used."""


class KernelError(RuntimeError):
    """A command of a pass failed: `code` of the header, its `text`, and the index of the command (-1: none ran)."""

    def __init__(self, code: int, text: str, command_index: int) -> None:
        super().__init__(f"kernel command {command_index}: {text}")
        self.code = code
        self.text = text
        self.command_index = command_index


class Kernels:
    """One loaded library. `ffi` and `lib` are cffi's; `isa` names the instruction set in use."""

    def __init__(self, path: Path) -> None:
        """Load the library at `path`. Raises LibraryError when it cannot be used."""
        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(CDEF)
        try:
            self.lib = self.ffi.dlopen(str(path))
            abi = self.lib.golem_abi()
        except (OSError, AttributeError) as error:
            raise LibraryError(f"cannot load the kernel library {path}: {error}") from error
        if abi != ABI:
            raise LibraryError(
                f"the kernel library {path} has interface version {abi}, golem-host needs {ABI}: reinstall golem-host"
            )
        self.isa = self._text(self.lib.golem_isa())
        self._int32_pointer, self._float_array = self.ffi.typeof("int32_t *"), self.ffi.typeof("float[]")
        wanted = os.environ.get("GOLEM_ISA")
        if wanted and wanted != self.isa:
            raise LibraryError(
                f"GOLEM_ISA={wanted}: no such instruction set in this build or on this machine; have {self.isa}"
            )

    def act_kind(self, ggml_type: int) -> int:
        """The `Act` of the activations that weights of this ggml type are multiplied with; -1: type not supported."""
        return self.lib.golem_act_kind(ggml_type)

    def act_bytes(self, kind: int, n: int) -> int:
        """Bytes of one activation row of n values; 0 when n does not fit the kind's blocks."""
        return self.lib.golem_act_bytes(kind, n)

    def tile_rows(self, ggml_type: int) -> int:
        """Rows that `Op.LAY` lays together; 0 where this instruction set multiplies the type as stored."""
        return self.lib.golem_tile_rows(ggml_type)

    def laid_bytes(self, ggml_type: int, m: int, k: int) -> int:
        """Bytes of weights (m, k) re-laid by `Op.LAY`; 0 where this instruction set multiplies them as stored."""
        return self.lib.golem_laid_bytes(ggml_type, m, k)

    def pool(self, threads: int) -> Pool:
        """A thread pool of that many threads (1..256), the caller of `Pool.run` included."""
        return Pool(self, threads)

    def top_k(
        self, x: NDArray[np.float32], k: int, maxima: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Indices and values of the k largest of x, shape (n,), 0 < k <= n: largest first, ties by lower index, NaN
        less than all. `maxima`: those of its blocks (`Op.BLOCK_MAXIMA`), where they are known and all of x is finite.
        """
        values = self._floats(x)
        if not 0 < k <= x.size:
            raise ValueError(f"k must be 1..{x.size}, got {k}")
        known = self._known_maxima(x, maxima)
        index, value = np.empty(k, np.int32), np.empty(k, np.float32)
        code = self.lib.golem_top_k(
            values, known, x.size, k, self.ffi.from_buffer("int32_t[]", index), self.ffi.from_buffer("float[]", value)
        )
        if code:
            raise MemoryError(self.error_text(code))
        return index, value

    def draw_rules(self, *, top_k: int, top_p: float, min_p: float, min_keep: int, temperature: float) -> Any:
        """What `draw` applies: `top_k` > 0, `temperature` > 0; `top_p` 1 and `min_p` 0 are off."""
        ln_min_p = math.log(min_p) if min_p > 0 else -math.inf
        return self.ffi.new("golem_draw_rules *", (top_k, min_keep, top_p, ln_min_p, temperature))

    def draw(self, x: NDArray[np.float32], maxima: NDArray[np.float32] | None, rules: Any, share: float) -> int:
        """Index drawn from logits x, shape (n,), n > 0, by `draw_rules` at `share` (0..1) of the weights; -1 when the
        largest is not finite. `maxima` as in `top_k`.
        """
        index = self.lib.golem_draw(self._floats(x), self._known_maxima(x, maxima), x.size, rules, share)
        if index < -1:
            raise MemoryError if index == -3 else ValueError("bad rules or share of a draw")
        return index

    def walk_strings(self, buffer: Any, at: int, count: int) -> NDArray[np.int64]:
        """Where each of `count` GGUF strings (u64 length, bytes) starts in `buffer` from byte `at`; last: their end.

        Returns count + 1 offsets. Raises ValueError when a string leaves the buffer.
        """
        if count < 0 or count > len(buffer) // 8:
            raise ValueError(f"{count} strings do not fit into {len(buffer)} bytes")
        offsets = np.empty(count + 1, np.int64)
        with self.ffi.from_buffer("uint8_t[]", buffer) as start:
            code = self.lib.golem_walk_strings(start, len(start), at, count, self.ffi.from_buffer("int64_t[]", offsets))
        if code:
            raise ValueError(self.error_text(code))
        return offsets

    def error_text(self, code: int) -> str:
        """What an error code of the header means."""
        return self._text(self.lib.golem_error_text(code))

    def _text(self, pointer: Any) -> str:
        return self.ffi.string(pointer).decode()

    def _known_maxima(self, x: NDArray[np.float32], maxima: NDArray[np.float32] | None) -> Any:
        if maxima is None:
            return self.ffi.NULL
        if maxima.size != -(-x.size // MAXIMA_BLOCK):
            raise ValueError(f"{maxima.size} maxima of {x.size} values in blocks of {MAXIMA_BLOCK}")
        return self._floats(maxima)

    def _floats(self, x: NDArray[np.float32]) -> Any:
        if x.dtype != np.float32 or x.ndim != 1 or not x.size:
            raise ValueError(f"expected a non-empty vector of float32, got {x.dtype} of shape {x.shape}")
        return self.ffi.from_buffer(self._float_array, x)


class Pool:
    """Compute threads for recorded passes. Usable as a context manager; `close` joins the threads."""

    def __init__(self, kernels: Kernels, threads: int) -> None:
        self._kernels = kernels
        pool = kernels.lib.golem_pool_new(threads)
        if pool == kernels.ffi.NULL:
            raise ValueError(f"cannot make a pool of {threads} threads (1..256)")
        self._pool = kernels.ffi.gc(pool, kernels.lib.golem_pool_free)
        self._failed_at = kernels.ffi.new("int64_t *")
        self.threads = threads

    def run(self, cmds: Any, n: int, live: Any) -> None:
        """Replay n commands (`golem_cmd[]`) with live row counts `live` (`int64_t[]`), the GIL released.

        Raises KernelError naming the command that failed; commands before it have run. One run at a time.
        """
        if self._pool is None:
            raise ValueError("the pool is closed")
        code = self._kernels.lib.golem_run(self._pool, cmds, n, live, self._failed_at)
        if code:
            raise KernelError(code, self._kernels.error_text(code), self._failed_at[0])

    def close(self) -> None:
        """Stop and join the threads. May be called again."""
        if self._pool is not None:
            self._kernels.ffi.release(self._pool)
            self._pool = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def library_path() -> Path:
    """Where the library is, or would be."""
    given = os.environ.get("GOLEM_KERNELS_LIBRARY")
    if given:
        return Path(given)
    suffix = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")
    # An editable install has the sources in one folder and what was built in another.
    places = [Path(folder) / f"libgolem_kernels.{suffix}" for folder in golem_host.kernels.__path__]
    return next((place for place in places if place.is_file()), places[0])


@cache
def load() -> Kernels | None:
    """The library of this installation, or None where it has none (`why_missing` says why).

    Raises LibraryError when there is a library that cannot be used, or GOLEM_KERNELS_LIBRARY names no file.
    """
    path = library_path()
    if path.is_file():
        return Kernels(path)
    if os.environ.get("GOLEM_KERNELS_LIBRARY"):
        raise LibraryError(f"GOLEM_KERNELS_LIBRARY: no such file: {path}")
    return None


def why_missing() -> str:
    """One line for people when `load` gives None."""
    return f"no kernel library at {library_path()}; install golem-host with a C++ compiler at hand to build it"
