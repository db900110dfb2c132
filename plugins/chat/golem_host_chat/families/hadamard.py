"""Weights folded with a Walsh-Hadamard transform, as those of Bonsai 2: `prism.hadamard.*` (chat-models reference 2.9).

A folded matrix multiplies not x but H (signs * x), block by block; rows of a folded table are z where signs * (H z) is
meant. Without the transform such a file talks fluent nonsense, so a key that is missing or unknown refuses it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from golem_host import ops
from golem_host.ops import Ref
from golem_host.weights.gguf import Gguf, GgufError
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

PREFIX = "prism.hadamard."
VERSION = 1
_TEXTS = {"transform": "normalized-sylvester-walsh-hadamard", "axis": "input-last-dimension"}
_SIGN_KEYS = ("sign_widths", "sign_values")
_KEYS = {*_TEXTS, *_SIGN_KEYS}
_KEYS |= {"version", "block_size", "sign_mode", "weight_names", "inverse_weight_names", "gdn_v_grouped"}
_TABLE = "token_embd.weight"
_GROUPED = ".ssm_out.weight"


class Turn:
    """The transform of a product's input. Products that follow each other and share an input share its transform."""

    def __init__(self, signs: Tensor | None, block: int, exchanged: tuple[int, int]) -> None:
        self._signs, self._block, self._exchanged = signs, block, exchanged
        self._last: tuple[Ref, Ref] | None = None

    def __call__(self, x: Ref) -> Ref:
        """(rows, n) from `x`, rows of n values."""
        last = self._last
        if last is None or last[0] is not x:
            flat = x.reshape(x.width)
            turned = ops.hadamard(flat, self._signs, self._block, exchanged=self._exchanged)
            last = self._last = (x, turned)
        return last[1]


class Folding:
    """What a file says of its folded tensors; `read_folding` makes it.

    `exchanged` are the value heads of a key head and the key heads, which outputs of delta nets have in that order and
    their folded projections in the other.
    """

    def __init__(self, gguf: Gguf, exchanged: tuple[int, int]) -> None:
        self._path = gguf.path
        _check_keys(gguf)
        self._block = _read_block(gguf)
        self._signs = _read_signs(gguf, self._block)
        self._weights = frozenset(_read_names(gguf, "weight_names"))
        self._tables = frozenset(_read_names(gguf, "inverse_weight_names"))
        grouped = gguf.boolean(PREFIX + "gdn_v_grouped")
        self._exchanged = exchanged if grouped else (1, 1)
        self._turns: dict[tuple[int, tuple[int, int]], Turn] = {}
        self._turned: set[str] = set()
        for name in gguf.tensors if grouped else ():
            if name.endswith(_GROUPED) and name not in self._weights:
                raise GgufError(gguf.path, f"'{PREFIX}weight_names' lacks '{name}', whose heads are grouped")
        for name in self._tables - {_TABLE}:
            raise GgufError(gguf.path, f"'{PREFIX}inverse_weight_names' lists '{name}'; only '{_TABLE}' is served")
        if self._tables and "output.weight" not in gguf.tensors:
            raise GgufError(gguf.path, f"tensor 'output.weight' is missing beside a folded '{_TABLE}'")

    def turn(self, name: str, width: int) -> Turn | None:
        """The transform of the input, `width` values, of matrix `name`; None for one that is not folded."""
        if name not in self._weights:
            return None
        self._turned.add(name)
        key = width, self._exchanged if name.endswith(_GROUPED) else (1, 1)
        if key not in self._turns:
            self._turns[key] = Turn(self._signs_of(width, name), self._block, key[1])
        return self._turns[key]

    def unfold(self, rows: Ref) -> Ref:
        """Rows of the embedding table as the model means them."""
        if _TABLE not in self._tables:
            return rows
        return ops.hadamard(rows, self._signs_of(rows.width, _TABLE), self._block, signs_after=True)

    def check(self, width: int, skipped: tuple[str, ...]) -> None:
        """After all weights were asked for: raise `GgufError` for one that is listed and was not, except where names
        begin as `skipped` say, and for a table, of rows of `width` values, that cannot be unfolded.
        """
        if self._tables:
            self._signs_of(width, _TABLE)
        for name in sorted(self._weights - self._turned):
            if not name.startswith(skipped):
                raise GgufError(self._path, f"'{PREFIX}weight_names' lists '{name}', which is not multiplied with here")

    def _signs_of(self, width: int, name: str) -> Tensor | None:
        if width % self._block:
            raise GgufError(self._path, f"tensor '{name}': rows of {width} values are no whole blocks of {self._block}")
        if self._signs is None:
            return None
        if width not in self._signs:
            raise GgufError(self._path, f"'{PREFIX}sign_widths' lacks {width}, the width of tensor '{name}'")
        return self._signs[width]


def is_folded(gguf: Gguf) -> bool:
    """Whether a file says anything of folded weights."""
    return any(key.startswith(PREFIX) for key in gguf.metadata)


def read_folding(gguf: Gguf, exchanged: tuple[int, int]) -> Folding | None:
    """The folding of a file, None where it has none. Raises `GgufError` naming what is not understood."""
    return Folding(gguf, exchanged) if is_folded(gguf) else None


def _check_keys(gguf: Gguf) -> None:
    version = gguf.u32(PREFIX + "version")
    if version != VERSION:
        raise GgufError(gguf.path, f"'{PREFIX}version' is {version}; version {VERSION} is served")
    for key in gguf.metadata:
        if key.startswith(PREFIX) and key.removeprefix(PREFIX) not in _KEYS:
            raise GgufError(gguf.path, f"'{key}' is not known of version {VERSION}")
    for key, served in _TEXTS.items():
        if (found := gguf.string(PREFIX + key)) != served:
            raise GgufError(gguf.path, f"'{PREFIX}{key}' is {found[:80]!r}; {served!r} is served")


def _read_block(gguf: Gguf) -> int:
    block = gguf.u32(PREFIX + "block_size")
    if not 0 < block <= ops.MAX_HADAMARD or block & (block - 1):
        raise GgufError(
            gguf.path, f"'{PREFIX}block_size' is {block}; a power of two up to {ops.MAX_HADAMARD} is expected"
        )
    return block


def _read_signs(gguf: Gguf, block: int) -> dict[int, Tensor] | None:
    """The signs by width of what they multiply; None where all are one."""
    mode = gguf.string(PREFIX + "sign_mode")
    if mode == "identity":
        for key in _SIGN_KEYS:
            if PREFIX + key in gguf.metadata:
                raise GgufError(gguf.path, f"'{PREFIX}{key}' is there, though 'sign_mode' is 'identity'")
        return None
    if mode != "explicit":
        raise GgufError(gguf.path, f"'{PREFIX}sign_mode' is {mode[:80]!r}; 'explicit' and 'identity' are served")
    widths, values = (gguf.array(PREFIX + key) for key in _SIGN_KEYS)
    if widths.dtype.kind not in "iu" or len(set(widths.tolist())) != len(widths) or (widths <= 0).any():
        raise GgufError(gguf.path, f"'{PREFIX}sign_widths' is {widths[:8].tolist()}; different widths are expected")
    if (widths % block).any() or sum(widths.tolist()) != len(values):
        raise GgufError(
            gguf.path,
            f"'{PREFIX}sign_widths' {widths[:8].tolist()} in blocks of {block} do not share out {len(values)} signs",
        )
    if values.dtype.kind not in "if" or (np.abs(values.astype(np.float64)) != 1).any():
        raise GgufError(gguf.path, f"'{PREFIX}sign_values' holds other values than 1 and -1")
    parts = np.split(values.astype(np.float32), np.cumsum(widths)[:-1])
    return {len(part): _tensor(gguf.path, part) for part in parts}


def _tensor(path: Path, values: NDArray[np.float32]) -> Tensor:
    stored = (GgmlType.F32, values.view(np.uint8))
    return Tensor(f"{PREFIX}sign_values[{len(values)}]", values.shape, GgmlType.F32, path, stored)


def _read_names(gguf: Gguf, key: str) -> list[str]:
    names = gguf.strings(PREFIX + key)
    if len(names) > len(gguf.tensors):
        raise GgufError(gguf.path, f"'{PREFIX}{key}' lists {len(names)} names of {len(gguf.tensors)} tensors")
    for name in (found := names.strs()):
        if name not in gguf.tensors:
            raise GgufError(gguf.path, f"'{PREFIX}{key}' lists '{name[:80]}', which is no tensor of the file")
    return found
