"""The operations model code is written in. Each records a step of a pass; `recording` explains how."""

from golem_host.ops.activations import multiplies
from golem_host.ops.attention import attention, cache_store
from golem_host.ops.conv import causal_conv
from golem_host.ops.delta import decay, gated_delta
from golem_host.ops.elementwise import add, add_row, multiply_row, scale, softcap
from golem_host.ops.embedding import rows, select
from golem_host.ops.experts import MAX_EXPERTS, Weighting, expert_linear, mix, route
from golem_host.ops.full_attention import full_attention
from golem_host.ops.gate import (
    elu,
    float_gelu_tanh,
    geglu,
    gelu,
    gelu_gate,
    gelu_tanh,
    relu,
    sigmoid,
    sigmoid_gate,
    silu,
    swiglu,
)
from golem_host.ops.hadamard import MAX_HADAMARD, hadamard
from golem_host.ops.image import conv2d
from golem_host.ops.largest import arg_largest, block_maxima
from golem_host.ops.linear import linear
from golem_host.ops.narrow import narrow
from golem_host.ops.norm import l2_norm, layer_norm, rms_norm
from golem_host.ops.recording import Axis, Op, Recording, Ref, torch_op
from golem_host.ops.rope import RopeStyle, Sections, Yarn, rope, rope_angles
from golem_host.ops.slot_cache import Cache, CacheType
from golem_host.ops.state import State
from golem_host.ops.temperature import temperature
from golem_host.ops.texts import mean, text_attention
from golem_host.ops.windows import causal_windows

__all__ = [
    "MAX_EXPERTS",
    "MAX_HADAMARD",
    "Axis",
    "Cache",
    "CacheType",
    "Op",
    "Recording",
    "Ref",
    "RopeStyle",
    "Sections",
    "State",
    "Weighting",
    "Yarn",
    "add",
    "add_row",
    "arg_largest",
    "attention",
    "block_maxima",
    "cache_store",
    "causal_conv",
    "causal_windows",
    "conv2d",
    "decay",
    "elu",
    "expert_linear",
    "float_gelu_tanh",
    "full_attention",
    "gated_delta",
    "geglu",
    "gelu",
    "gelu_gate",
    "gelu_tanh",
    "hadamard",
    "l2_norm",
    "layer_norm",
    "linear",
    "mean",
    "mix",
    "multiplies",
    "multiply_row",
    "narrow",
    "relu",
    "rms_norm",
    "rope",
    "rope_angles",
    "route",
    "rows",
    "scale",
    "select",
    "sigmoid",
    "sigmoid_gate",
    "silu",
    "softcap",
    "swiglu",
    "temperature",
    "text_attention",
    "torch_op",
]
