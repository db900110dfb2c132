"""The operations model code is written in. Each records a step of a pass; `recording` explains how."""

from golem_host.ops.activations import multiplies
from golem_host.ops.attention import Cache, attention, cache_store
from golem_host.ops.elementwise import add, scale, softcap
from golem_host.ops.embedding import rows, select
from golem_host.ops.experts import Weighting, expert_linear, mix, route
from golem_host.ops.gate import geglu, swiglu
from golem_host.ops.linear import linear
from golem_host.ops.norm import rms_norm
from golem_host.ops.recording import Axis, Op, Recording, Ref, torch_op
from golem_host.ops.rope import RopeStyle, Yarn, rope, rope_angles

__all__ = [
    "Axis",
    "Cache",
    "Op",
    "Recording",
    "Ref",
    "RopeStyle",
    "Weighting",
    "Yarn",
    "add",
    "attention",
    "cache_store",
    "expert_linear",
    "geglu",
    "linear",
    "mix",
    "multiplies",
    "rms_norm",
    "rope",
    "rope_angles",
    "route",
    "rows",
    "scale",
    "select",
    "softcap",
    "swiglu",
    "torch_op",
]
