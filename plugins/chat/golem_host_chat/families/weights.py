"""The tensors of a file as a family asks for them: checked for shape, and none left over without a word."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from golem_host import ops
from golem_host.ops import Ref
from golem_host.printable import printable
from golem_host.weights.gguf import Gguf, GgufError
from golem_host.weights.tensor import Tensor
from golem_host_chat.families.hadamard import PREFIX, Folding, Turn, is_folded

log = logging.getLogger("golem_host.chat")


@dataclass(frozen=True)
class Linear:
    """A projection: `weight` (out, in), a `bias` (out,) or a scalar that the product is multiplied by, where the file
    has one, and the transform of its input where the weight is folded.
    """

    weight: Tensor
    bias: Tensor | None = None
    scale: float | None = None
    turn: Turn | None = None

    def __call__(self, x: Ref) -> Ref:
        x = x if self.turn is None else self.turn(x)
        y = ops.linear(x, self.weight, self.bias)
        return y if self.scale is None else ops.scale(y, self.scale)


@dataclass(frozen=True)
class GatedExperts:
    """Gate and up matrices of a mixture's experts: two tensors, or rows of one."""

    gate: Tensor
    up: Tensor
    gate_rows: range
    up_rows: range

    def __call__(self, x: Ref, routes: Ref) -> tuple[Ref, Ref]:
        """Both products (rows, used, out) of `x` (rows, in) with each chosen expert."""
        return (
            ops.expert_linear(x, routes, self.gate, self.gate_rows),
            ops.expert_linear(x, routes, self.up, self.up_rows),
        )


class Weights:
    """Hands out tensors by name. Raises `GgufError` naming a tensor that is missing, misshapen, or of a type that is
    unknown or cannot be read or, in a matrix, be multiplied with: now rather than in the first pass."""

    def __init__(self, gguf: Gguf, folding: Folding | None = None) -> None:
        """`folding` is what the family has read of folded weights; families that read none refuse such files."""
        if folding is None and is_folded(gguf):
            raise GgufError(gguf.path, f"its weights are folded ('{PREFIX}*'), which {gguf.architecture} is not here")
        self._gguf = gguf
        self._folding = folding
        self._used: set[str] = set()

    def tensor(self, name: str, *shape: int) -> Tensor:
        tensor = self.optional(name, *shape)
        if tensor is None:
            raise GgufError(self._gguf.path, f"tensor '{name}' is missing")
        return tensor

    def optional(self, name: str, *shape: int) -> Tensor | None:
        tensor = self._gguf.tensors.get(name)
        if tensor is None:
            return None
        if tensor.shape != shape:
            raise GgufError(
                self._gguf.path, f"tensor '{name}' has shape {list(tensor.shape)}, the metadata asks for {list(shape)}"
            )
        tensor.check_values()
        if len(shape) > 1:
            self._check_product(tensor)
        self._used.add(name)
        return tensor

    def _check_product(self, tensor: Tensor) -> None:
        if not ops.multiplies(tensor.type):
            raise GgufError(
                self._gguf.path,
                f"tensor '{tensor.name}' is a matrix of type {tensor.type_name}, which nothing is multiplied with; get "
                "the model in a common type such as Q4_K, Q8_0 or F16",
            )

    def linear(self, name: str, out: int, in_: int) -> Linear:
        """`name.weight` with its optional `name.bias` or `name.scale`."""
        weight = self.tensor(f"{name}.weight", out, in_)
        return self._linear(weight, self.optional(f"{name}.bias", out), self.optional(f"{name}.scale", 1))

    def qkv(self, name: str, query: int, key: int, value: int, in_: int) -> tuple[Linear, Linear, Linear]:
        """The projections of a block's attention, of so many rows each: `name.attn_q`, `attn_k` and `attn_v`, or their
        rows in that order in one `name.attn_qkv`."""
        fused, sizes = f"{name}.attn_qkv", {"q": query, "k": key, "v": value}
        if f"{fused}.weight" not in self._gguf.tensors:
            q, k, v = (self.linear(f"{name}.attn_{each}", size, in_) for each, size in sizes.items())
            return q, k, v
        rows = sum(sizes.values())
        weight, scale = self.tensor(f"{fused}.weight", rows, in_), self.optional(f"{fused}.scale", 1)
        bias = self.optional(f"{fused}.bias", rows)
        parts: list[Linear] = []
        first = 0
        for each, size in sizes.items():
            # Files exist whose matrices were fused and whose biases were not.
            own = self.optional(f"{name}.attn_{each}.bias", size) if bias is None else bias.part(first, size)
            parts.append(self._linear(weight.part(first, size), own, scale))
            first += size
        q, k, v = parts
        return q, k, v

    def _linear(self, weight: Tensor, bias: Tensor | None, scale: Tensor | None) -> Linear:
        if bias is not None and scale is not None:
            raise GgufError(self._gguf.path, f"tensors '{bias.name}' and '{scale.name}' together are not served")
        turn = None if self._folding is None else self._folding.turn(weight.name, weight.shape[1])
        return Linear(weight, bias, None if scale is None else self.number(scale), turn)

    def number(self, tensor: Tensor) -> float:
        """The value of a tensor of one. Raises `GgufError` for one that is not finite."""
        value = float(tensor.float32()[0])
        if not math.isfinite(value):
            raise GgufError(self._gguf.path, f"tensor '{tensor.name}' holds {value}; a finite number is expected")
        return value

    def optional_linear(self, name: str, out: int, in_: int) -> Linear | None:
        """`linear`, or None where the file has no `name.weight`."""
        return self.linear(name, out, in_) if f"{name}.weight" in self._gguf.tensors else None

    def experts(self, name: str, count: int, out: int, in_: int) -> Tensor:
        """`name.weight`, a matrix for each expert: (count, out, in). A bias or scale for each is refused."""
        self._refuse_variants(name, "bias", "scale")
        return self.tensor(f"{name}.weight", count, out, in_)

    def scaled_experts(self, name: str, count: int, out: int, in_: int) -> tuple[Tensor, Tensor | None]:
        """`experts` with the optional `name.scale` (count,), by which each expert's output is multiplied."""
        scale = self.optional(f"{name}.scale", count)
        self._refuse_variants(name, "bias")
        return self.tensor(f"{name}.weight", count, out, in_), scale

    def _refuse_variants(self, name: str, *kinds: str) -> None:
        for kind in kinds:
            if f"{name}.{kind}" in self._gguf.tensors:
                raise GgufError(
                    self._gguf.path,
                    f"tensor '{name}.{kind}': this variant of {self._gguf.architecture} is not served",
                )

    def gated_experts(self, name: str, count: int, out: int, in_: int) -> GatedExperts:
        """`name.ffn_gate_exps` and `name.ffn_up_exps`, or `name.ffn_gate_up_exps`, which holds both."""
        if f"{name}.ffn_gate_up_exps.weight" in self._gguf.tensors:
            both = self.experts(f"{name}.ffn_gate_up_exps", count, 2 * out, in_)
            return GatedExperts(both, both, range(out), range(out, 2 * out))
        gate, up = (self.experts(f"{name}.{half}", count, out, in_) for half in ("ffn_gate_exps", "ffn_up_exps"))
        return GatedExperts(gate, up, range(out), range(out))

    def row(self, name: str, width: int) -> Tensor:
        """A matrix of one row, (1, width), however many axes the file gives it."""
        tensor = self._gguf.tensors.get(name)
        shape = (1, width) if tensor is not None and len(tensor.shape) == 2 else (width,)
        row = self.tensor(name, *shape)
        self._check_product(row)
        return replace(row, shape=(1, width))

    def head(self, vocab_size: int, width: int) -> Linear:
        """The output matrix when the file has one, else the embedding table (tied); either may have a bias."""
        if "output.weight" in self._gguf.tensors:
            return self.linear("output", vocab_size, width)
        return Linear(self.tensor("token_embd.weight", vocab_size, width), self.optional("output.bias", vocab_size))

    def vocab_size(self, width: int) -> int:
        """Rows of the embedding table: what the file really holds, whatever its metadata says."""
        table = self._gguf.tensors.get("token_embd.weight")
        if table is None or len(table.shape) != 2 or table.shape[1] != width:
            found = "is missing" if table is None else f"has shape {list(table.shape)}"
            raise GgufError(self._gguf.path, f"tensor 'token_embd.weight' {found}; rows of {width} values are expected")
        return table.shape[0]

    def skip(self, *prefixes: str) -> None:
        """Leave out the tensors whose names begin so, which this host knows and does not compute."""
        self._used.update(name for name in self._gguf.tensors if name.startswith(prefixes))

    def warn_unused(self) -> None:
        """Say which tensors this family does not know; they are skipped."""
        unused = tuple(name for name in self._gguf.tensors if name not in self._used)
        if unused:
            _say_unused(self._gguf.path, unused)


@cache
def _say_unused(path: Path, names: tuple[str, ...]) -> None:
    """Once for a file, though it is opened to be listed and again to be loaded."""
    log.warning("%s: %d tensors are not used: %s", path.name, len(names), printable(", ".join(names[:8]), 400))
