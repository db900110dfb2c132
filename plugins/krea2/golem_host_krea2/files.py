"""A checkpoint file of any kind that ComfyUI takes: safetensors, plain or with fp8 weights, or GGUF."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from golem_host.api import InternalError, ModelFileError
from golem_host.weights import GgmlType, Gguf, Safetensors, Tensor, open_gguf, open_safetensors
from golem_host_krea2.fp8 import Fp8Matrix

_FLOATS = (GgmlType.F32, GgmlType.F16, GgmlType.BF16)
_FORMAT = "float8_e4m3fn"


class Matrix(Protocol):
    """A weight of a product, wherever its values come from."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def type(self) -> GgmlType:
        """The type it is computed with."""
        ...

    def part(self, first: int, count: int) -> Tensor:
        """Rows from `first` on, of that type."""
        ...


class File:
    """An open file; names are those without `prefix`. Everything raises `ModelFileError` for what cannot be used."""

    def __init__(self, path: Path, prefix: str = "") -> None:
        self.path = path
        self.prefix = prefix
        self._open: Gguf | Safetensors = open_gguf(path) if path.suffix == ".gguf" else open_safetensors(path)
        self._stamp = _stamp(path)
        self.size_bytes = self._open.size_bytes
        self._layers = _described_layers(self._open)

    def close(self) -> None:
        self._open.close()

    @property
    def unchanged(self) -> bool:
        """Whether the file is still there as it was opened."""
        return _stamp(self.path) == self._stamp

    def check_there(self) -> None:
        """Raise InternalError when the file is no longer there as it was opened: its pages may be gone."""
        if not self.unchanged:
            raise InternalError(f"{self.path.name} was moved, deleted or changed while it was read; put it back")

    @property
    def names(self) -> list[str]:
        """All tensors that begin with the prefix."""
        known = [*self._open.tensors, *(self._open.raw if isinstance(self._open, Safetensors) else ())]
        return [name.removeprefix(self.prefix) for name in known if name.startswith(self.prefix)]

    @property
    def elements(self) -> int:
        """Values of all tensors that are not fp8's own scales and marks."""
        raw = self._open.raw.values() if isinstance(self._open, Safetensors) else ()
        shapes = [tensor.shape for tensor in self._open.tensors.values()]
        shapes += [each.shape for each in raw if each.dtype == "F8_E4M3"]
        return sum(map(math.prod, shapes))

    def type_name(self, name: str) -> str:
        """How a tensor is stored."""
        found, _ = self._find(name)
        return found.type_name if isinstance(found, Tensor) else found.dtype

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape; a tensor that is not there is refused."""
        return self._find(name)[1]

    def floats(self, name: str, *shape: int) -> NDArray[np.float32]:
        """The values of a small tensor as float32, of `shape` when one is given."""
        found, there = self._find(name)
        if shape and there != shape:
            raise self._wrong_shape(name, there, shape)
        if not isinstance(found, Tensor):
            return self._fp8(name, found).part(0, there[0]).float32().reshape(there)
        if found.type not in _FLOATS:
            raise self.refusal(name, f"is stored as {found.type_name}; F32, F16 and BF16 are read here")
        return found.float32().reshape(there)

    def matrix(self, name: str, rows: int, columns: int) -> Matrix:
        """A weight to multiply by, of that shape."""
        from golem_host import ops

        found, there = self._find(name)
        if there != (rows, columns):
            raise self._wrong_shape(name, there, (rows, columns))
        if not isinstance(found, Tensor):
            return self._fp8(name, found)
        layer = name.removesuffix(".weight")
        if self._layer_format(layer) is not None:
            raise self.refusal(name, f"is stored as {found.type_name} and described as {self._layer_format(layer)}")
        if not ops.multiplies(found.type):
            raise self.refusal(name, f"is stored as {found.type_name}, which nothing is multiplied by here")
        return found

    def table(self, name: str, rows: int, columns: int) -> NDArrayRows:
        """A table of which single rows are looked up."""
        return NDArrayRows(self.matrix(name, rows, columns))

    def refusal(self, name: str, reason: str) -> ModelFileError:
        return ModelFileError(self.path, f"tensor '{self.prefix}{name}' {reason}")

    def _find(self, name: str) -> tuple[Any, tuple[int, ...]]:
        full = self.prefix + name
        tensor = self._open.tensors.get(full)
        if tensor is not None:
            if tensor.stored is None:
                raise self.refusal(name, f"is stored as {tensor.type_name}, which is not served")
            return tensor, tensor.shape
        raw = self._open.raw.get(full) if isinstance(self._open, Safetensors) else None
        if raw is None:
            raise ModelFileError(self.path, f"tensor '{full}' is missing")
        if raw.dtype != "F8_E4M3":
            kind = self._layer_format(name.removesuffix(".weight"))
            raise self.refusal(name, f"is stored as {raw.dtype}{f' ({kind})' if kind else ''}, which is not served")
        return raw, raw.shape

    def _fp8(self, name: str, raw: Any) -> Fp8Matrix:
        layer = name.removesuffix(".weight")
        kind = self._layer_format(layer)
        if kind not in (None, _FORMAT):
            raise self.refusal(name, f"is stored as {kind}, which is not served; {_FORMAT} is")
        return Fp8Matrix(self.prefix + name, raw.shape, raw.data, self._scale(layer), self.path)

    def _scale(self, layer: str) -> float:
        for suffix in ("weight_scale", "scale_weight"):
            full = f"{self.prefix}{layer}.{suffix}"
            tensor = self._open.tensors.get(full)
            if tensor is None:
                continue
            if tensor.elements != 1 or tensor.type not in _FLOATS:
                raise ModelFileError(self.path, f"tensor '{full}' of shape {list(tensor.shape)} is no single scale")
            value = float(tensor.float32().reshape(-1)[0])
            if not np.isfinite(value):
                raise ModelFileError(self.path, f"tensor '{full}' is {value}")
            return value
        if isinstance(self._open, Safetensors) and f"{self.prefix}{layer}.weight_scale" in self._open.raw:
            raise ModelFileError(self.path, f"'{self.prefix}{layer}' has scales of blocks, which are not served")
        return 1.0

    def _layer_format(self, layer: str) -> str | None:
        """How a layer says that it is quantized: `comfy_quant` beside it, or the file's metadata."""
        described = self._layers.get(self.prefix + layer)
        if described is not None:
            return described
        raw = self._open.raw.get(f"{self.prefix}{layer}.comfy_quant") if isinstance(self._open, Safetensors) else None
        if raw is None:
            return None
        try:
            value = json.loads(bytes(raw.data).decode())
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict) or not isinstance(value.get("format"), str):
            raise ModelFileError(self.path, f"'{self.prefix}{layer}.comfy_quant' names no format")
        return value["format"]

    def _wrong_shape(self, name: str, there: tuple[int, ...], expected: tuple[int, ...]) -> ModelFileError:
        return self.refusal(name, f"has shape {list(there)}, {list(expected)} is expected")


class NDArrayRows:
    """Single rows of a matrix as float32."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self.shape = matrix.shape

    def rows(self, ids: list[int]) -> NDArray[np.float32]:
        """(n, columns). The ids are rows that are there."""
        return np.concatenate([self._matrix.part(row, 1).float32() for row in ids])


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _described_layers(file: Gguf | Safetensors) -> Mapping[str, str]:
    """Formats of layers by their names, from the metadata key `_quantization_metadata`."""
    text = file.metadata.get("_quantization_metadata") if isinstance(file, Safetensors) else None
    if text is None:
        return {}
    try:
        layers = json.loads(text)["layers"]
        return {name: str(layer["format"]) for name, layer in layers.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelFileError(file.path, "'_quantization_metadata' does not list the formats of layers") from None
