"""The transformer block that the diffusion model and its text fusion share, as recorded operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from golem_host import ops
from golem_host.ops import Ref, RopeStyle
from golem_host.weights import Tensor
from golem_host_krea2.files import File
from golem_host_krea2.hparams import Blocks
from golem_host_krea2.layer import LayerWeights

EPS = 1e-5
FLOATS = ("F32", "F16", "BF16")

MATRICES = {
    "wq": "attn.wq", "wk": "attn.wk", "wv": "attn.wv", "wg": "attn.gate", "wo": "attn.wo",
    "gate": "mlp.gate", "up": "mlp.up", "down": "mlp.down",
}  # fmt: skip
"""Names of a block's matrices here and, without `.weight`, in the file."""


def product(x: Ref, weight: Tensor, bias: Tensor | None = None) -> Ref:
    """`x` is rounded for quantized weights only: float weights are computed with in float32, as torch does."""
    return ops.linear(x, weight, bias, rounds=weight.type.name not in FLOATS)


def coarse_product(x: Ref, weight: Tensor) -> Ref:
    """`x` is rounded for BF16 weights too, to bfloat16 as ComfyUI computes: processors multiply such numbers faster."""
    return ops.linear(x, weight, rounds=weight.type.name not in ("F32", "F16"))


def block_weights(file: File, name: str, shapes: Blocks) -> LayerWeights:
    """A block of the file with what its norms multiply by; modulation comes on top of them (`dit.modulated`)."""
    q, kv = shapes.heads * shapes.head_dim, shapes.kv_heads * shapes.head_dim
    sizes = {
        "wq": (q, shapes.width), "wk": (kv, shapes.width), "wv": (kv, shapes.width), "wg": (q, shapes.width),
        "wo": (shapes.width, q), "gate": (shapes.ff_width, shapes.width), "up": (shapes.ff_width, shapes.width),
        "down": (shapes.width, shapes.ff_width),
    }  # fmt: skip
    matrices = {key: file.matrix(f"{name}.{MATRICES[key]}.weight", *size) for key, size in sizes.items()}
    one = np.float32(1)
    vectors = {
        "norm1": one + file.floats(f"{name}.prenorm.scale", shapes.width),
        "norm2": one + file.floats(f"{name}.postnorm.scale", shapes.width),
        "norm_q": one + file.floats(f"{name}.attn.qknorm.qnorm.scale", shapes.head_dim),
        "norm_k": one + file.floats(f"{name}.attn.qknorm.knorm.scale", shapes.head_dim),
    }
    return LayerWeights(matrices, vectors)


Attend = Callable[[Ref, Ref, Ref], Ref]


def block(
    x: Ref,
    w: Mapping[str, Tensor],
    shapes: Blocks,
    attend: Attend,
    angles: Ref | None = None,
    *,
    modulated: bool = False,
) -> Ref:
    """x plus gated attention plus SwiGLU, each of the normed rows; `modulated` by the vectors shift1, gate1, shift2 and
    gate2. `attend` takes queries, keys and values (rows, heads, head_dim).
    """
    multiplied = coarse_product if modulated else product
    y = ops.rms_norm(x, w["norm1"], EPS)
    if modulated:
        y = ops.add_row(y, w["shift1"])
    q, k, v = (multiplied(y, w[name]) for name in ("wq", "wk", "wv"))
    q = ops.rms_norm(q.reshape(shapes.heads, shapes.head_dim), w["norm_q"], EPS)
    k = ops.rms_norm(k.reshape(shapes.kv_heads, shapes.head_dim), w["norm_k"], EPS)
    if angles is not None:
        q, k = (ops.rope(each, angles, RopeStyle.NORM) for each in (q, k))
    mixed = attend(q, k, v.reshape(shapes.kv_heads, shapes.head_dim))
    gated = ops.sigmoid_gate(multiplied(y, w["wg"]), mixed.reshape(shapes.heads * shapes.head_dim))
    x = ops.add(x, _gated(multiplied(gated, w["wo"]), w, "gate1", modulated))
    y = ops.rms_norm(x, w["norm2"], EPS)
    if modulated:
        y = ops.add_row(y, w["shift2"])
    y = multiplied(ops.swiglu(multiplied(y, w["gate"]), multiplied(y, w["up"])), w["down"])
    return ops.add(x, _gated(y, w, "gate2", modulated))


def _gated(y: Ref, w: Mapping[str, Tensor], name: str, modulated: bool) -> Ref:
    return ops.multiply_row(y, w[name]) if modulated else y


def modulated(weights: LayerWeights, modulation: NDArray[np.float32]) -> LayerWeights:
    """A block's weights with the six vectors (6, width) that scale, shift and gate its two halves folded in."""
    scale1, shift1, gate1, scale2, shift2, gate2 = modulation
    one = np.float32(1)
    folded = {
        "norm1": weights.vectors["norm1"] * (one + scale1), "shift1": shift1, "gate1": gate1,
        "norm2": weights.vectors["norm2"] * (one + scale2), "shift2": shift2, "gate2": gate2,
    }  # fmt: skip
    return LayerWeights(weights.matrices, {**weights.vectors, **folded})
