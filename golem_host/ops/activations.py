"""How ggml rounds activations before a quantized product (ggml `quantize_row_*`), in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from golem_host.weights.types import GgmlType

if TYPE_CHECKING:
    import torch

_Q8_0 = {GgmlType.Q4_0, GgmlType.Q5_0, GgmlType.Q8_0, GgmlType.IQ4_NL, GgmlType.MXFP4, GgmlType.NVFP4}
_Q8_0 |= {GgmlType.Q4_1, GgmlType.Q5_1, GgmlType.Q1_0, GgmlType.Q2_0, GgmlType.PQ2_0, GgmlType.PTQ1_0}
_Q8_K = {GgmlType.Q2_K, GgmlType.Q3_K, GgmlType.Q4_K, GgmlType.Q5_K, GgmlType.Q6_K, GgmlType.IQ4_XS}
_Q8_K |= {GgmlType.IQ1_S, GgmlType.IQ1_M, GgmlType.IQ2_XXS, GgmlType.IQ2_XS, GgmlType.IQ2_S}
_Q8_K |= {GgmlType.IQ3_XXS, GgmlType.IQ3_S, GgmlType.TQ1_0, GgmlType.TQ2_0}


def multiplies(weight: GgmlType) -> bool:
    """Whether there is a product with weights of this type: not for integers, float64, and ggml's activation types."""
    return weight in (GgmlType.F32, GgmlType.F16, GgmlType.BF16) or weight in _Q8_0 or weight in _Q8_K


def round_as_product_wants(x: torch.Tensor, weight: GgmlType) -> torch.Tensor:
    """`x` (rows, n) float32 with each value replaced by the one the product with this weight type really multiplies."""

    if weight is GgmlType.F32:
        return x
    if weight is GgmlType.F16:
        return x.half().float()
    if weight is GgmlType.BF16:
        return x.bfloat16().float()
    return _round_q8_0(x) if weight in _Q8_0 else _round_q8_k(x)


def _round_q8_0(x: torch.Tensor) -> torch.Tensor:
    """Blocks of 32: d = amax / 127 kept as half, q = round to even of x * 127 / amax."""
    import torch

    blocks = x.view(len(x), -1, 32)
    amax = blocks.abs().amax(-1, keepdim=True)
    inverse = torch.where(amax > 0, 127.0 / amax, torch.zeros_like(amax))
    return (torch.round(blocks * inverse) * (amax / 127.0).half().float()).view_as(x)


def _round_q8_k(x: torch.Tensor) -> torch.Tensor:
    """Blocks of 256: the value of largest magnitude becomes -127, the scale stays float32."""
    import torch

    blocks = x.view(len(x), -1, 256)
    largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
    scale = torch.where(largest != 0, -127.0 / largest, torch.zeros_like(largest))
    q = torch.clamp(torch.round(blocks * scale), max=127)
    return torch.where(scale != 0, q / scale, torch.zeros_like(q)).view_as(x)
