"""The tensors of a checkpoint as a family asks for them, checked for shape and type."""

from __future__ import annotations

from dataclasses import dataclass, replace

from golem_host import ops
from golem_host.api import ModelFileError
from golem_host.ops import Ref
from golem_host.weights.tensor import Tensor
from golem_host_embed.checkpoint import Checkpoint


@dataclass(frozen=True)
class Linear:
    """A projection: `weight` (out, in) and optional `bias` (out,)."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Ref) -> Ref:
        return ops.linear(x, self.weight, self.bias)


@dataclass(frozen=True)
class Norm:
    """A layer norm's `weight` and `bias` (width,)."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Ref) -> Ref:
        return ops.layer_norm(x, self.weight, self.bias, self.eps)


class Weights:
    """Hands out tensors by name. Raises `ModelFileError` naming a tensor that is missing, misshapen, or of a type that
    cannot be read or, in a matrix, be multiplied with: now rather than in the first pass."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._path = checkpoint.path
        self._tensors = checkpoint.tensors
        self._eps = checkpoint.hparams.norm_eps

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def tensor(self, name: str, *shape: int) -> Tensor:
        tensor = self.optional(name, *shape)
        if tensor is None:
            raise ModelFileError(self._path, f"tensor '{name}' is missing")
        return tensor

    def optional(self, name: str, *shape: int) -> Tensor | None:
        tensor = self._tensors.get(name)
        if tensor is None:
            return None
        if tensor.shape != shape:
            raise ModelFileError(
                self._path, f"tensor '{name}' has shape {list(tensor.shape)}, {list(shape)} is expected"
            )
        tensor.check_values()
        if len(shape) > 1 and not ops.multiplies(tensor.type):
            raise ModelFileError(
                self._path,
                f"tensor '{name}' is a matrix of type {tensor.type_name}, which nothing is multiplied with; get the "
                "model in a common type such as F16 or Q8_0",
            )
        return tensor

    def table(self, name: str, width: int) -> Tensor:
        """Rows of `width` values, however many the file holds; one row may be stored as a vector."""
        tensor = self._tensors.get(name)
        if tensor is None or not 1 <= len(tensor.shape) <= 2 or tensor.shape[-1] != width or not tensor.elements:
            found = "is missing" if tensor is None else f"has shape {list(tensor.shape)}"
            raise ModelFileError(self._path, f"tensor '{name}' {found}; rows of {width} values are expected")
        tensor.check_values()
        return tensor if len(tensor.shape) == 2 else replace(tensor, shape=(1, width))

    def linear(self, name: str, out: int, in_: int) -> Linear:
        """`name.weight` with its optional `name.bias`."""
        return Linear(self.tensor(f"{name}.weight", out, in_), self.optional(f"{name}.bias", out))

    def norm(self, name: str, width: int) -> Norm:
        return Norm(self.tensor(f"{name}.weight", width), self.tensor(f"{name}.bias", width), self._eps)

    def qkv(self, name: str, width: int) -> tuple[Linear, Linear, Linear]:
        """The projections of queries, keys and values of a block: `attn_q` and so on, or the thirds of `attn_qkv`."""
        if f"{name}.attn_qkv.weight" not in self:
            q, k, v = (self.linear(f"{name}.attn_{each}", width, width) for each in "qkv")
            return q, k, v
        fused = self.linear(f"{name}.attn_qkv", 3 * width, width)
        weights = replace(fused.weight, shape=(3, width, width))
        biases = [None] * 3 if fused.bias is None else [_part(fused.bias, third, width) for third in range(3)]
        q, k, v = (Linear(weights.matrix(third), biases[third]) for third in range(3))
        return q, k, v


def _part(vector: Tensor, index: int, size: int) -> Tensor:
    """Values index * size .. (index + 1) * size of a vector."""
    one = replace(vector, shape=(vector.elements // size, 1, size)).matrix(index)
    return replace(one, shape=(size,))
