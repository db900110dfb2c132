"""Kernels of another processor: `tests/native/replay.cpp`, run by an emulator, does what a library would do here."""

from __future__ import annotations

import ctypes
import os
import shlex
import struct
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from golem_host.kernels.library import KernelError, Kernels, Pool

COMMAND = shlex.split(os.environ.get("GOLEM_TEST_REPLAY", ""))
"""The command that runs golem_replay; empty: nothing is replayed."""
ISAS = ("generic", "neon") if COMMAND else ()
"""Instruction sets that the command has."""


class ReplayKernels(Kernels):
    """The library at `path`, whose pools replay their passes with COMMAND at the instruction set `isa`.

    Sizes and kinds of activations are asked of the library itself: they are the same everywhere.
    """

    def __init__(self, path: Path, isa: str) -> None:
        super().__init__(path)
        self._lock = threading.Lock()
        self._arrays: WeakValueDictionary[int, NDArray[Any]] = WeakValueDictionary()
        self._process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "GOLEM_ISA": isa}
        )
        assert self._process.stdin and self._process.stdout
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self.isa = self._answers.readline().decode().strip()
        assert self.isa == isa, f"{COMMAND} runs {self.isa!r}, not {isa!r}"

    def laid_bytes(self, ggml_type: int, m: int, k: int) -> int:
        with self._lock:
            self._ask(0, ggml_type, m, k)
            return self._numbers(1)[0]

    def top_k(
        self, x: NDArray[np.float32], k: int, maxima: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        super().top_k(x, k, maxima)  # refuses what it must
        with self._lock:
            self._ask(-1, x.size, k, 0, data=[x.tobytes()])
            assert self._numbers(1) == (0,)
            return np.frombuffer(self._read(4 * k), np.int32), np.frombuffer(self._read(4 * k), np.float32)

    def pool(self, threads: int) -> ReplayPool:
        return ReplayPool(self, threads)

    def remember(self, array: NDArray[Any]) -> None:
        """Before a pointer into the array is used in a command: the memory it belongs to goes along."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        assert array.flags.c_contiguous
        with self._lock:
            self._arrays[array.ctypes.data] = array

    def replay(self, threads: int, cmds: Any, n: int, live: Any) -> tuple[int, int]:
        """Run n commands; returns what golem_run returns, and failed_at. The arrays hold the results."""
        arrays: list[NDArray[Any]] = []  # those that the commands point into
        places = self.ffi.new("golem_cmd[]", n)
        self.ffi.memmove(places, cmds, self.ffi.sizeof("golem_cmd") * n)
        counts = list(live) if live else []
        with self._lock:
            for cmd in places:
                for slot in range(8):
                    place = self._place(int(self.ffi.cast("intptr_t", cmd.p[slot])), arrays)
                    cmd.p[slot] = self.ffi.cast("void *", place)
            data = [ctypes.string_at(array.ctypes.data, array.nbytes) for array in arrays]
            where = [number for array in arrays for number in (array.ctypes.data, array.nbytes)]
            data.append(bytes(self.ffi.buffer(places)))
            self._ask(threads, n, len(counts), len(arrays), *counts, *where, data=data)
            code, failed_at = self._numbers(2)
            for array in arrays:
                result = self._read(array.nbytes)
                if array.flags.writeable:
                    ctypes.memmove(array.ctypes.data, result, len(result))
        return code, failed_at

    def _place(self, pointer: int, arrays: list[NDArray[Any]]) -> int:
        if not pointer:
            return 0
        for address, array in self._arrays.items():
            if 0 <= pointer - address < array.nbytes:
                number = next((n for n, known in enumerate(arrays, 1) if known is array), 0)
                if not number:
                    arrays.append(array)
                    number = len(arrays)
                return number << 40 | pointer - address
        raise AssertionError("a pointer into no known array")

    def _ask(self, *numbers: int, data: Sequence[bytes] = ()) -> None:
        self._requests.write(struct.pack(f"<{len(numbers)}q", *numbers))
        self._requests.writelines(data)
        self._requests.flush()

    def _numbers(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}q", self._read(8 * count))

    def _read(self, size: int) -> bytes:
        data = self._answers.read(size)
        assert len(data) == size, f"{COMMAND} ended with {self._process.wait()}"
        return data

    def close(self) -> None:
        """End the process."""
        self._requests.close()
        self._answers.close()
        self._process.wait()


class ReplayPool(Pool):
    """A pool of this process that replays passes in the other one."""

    def __init__(self, kernels: ReplayKernels, threads: int) -> None:
        super().__init__(kernels, threads)
        self._replay = kernels.replay

    def run(self, cmds: Any, n: int, live: Any) -> None:
        if not n or self._pool is None:
            return super().run(cmds, n, live)
        code, failed_at = self._replay(self.threads, cmds, n, live)
        if code:
            raise KernelError(code, self._kernels.error_text(code), failed_at)
