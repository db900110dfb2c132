"""The layers of qwen35 and qwen35moe that mix positions: gated delta nets, and gated full attention between them.

Heads of values lie in GGUF order, head h with key head h % key_heads (chat-models reference 2.7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from golem_host import ops
from golem_host.ops import Cache, Ref, RopeStyle, State
from golem_host.weights.gguf import Gguf, GgufError
from golem_host.weights.tensor import Tensor
from golem_host_chat.families.base import Batch, CacheSpec, StateSpec
from golem_host_chat.families.hparams import Hparams, read_number
from golem_host_chat.families.weights import Linear, Weights

MAX_TAPS, MAX_STATE = 16, 256
"""The widest convolution and the longest key the operations have."""


@dataclass(frozen=True)
class DeltaHparams:
    """The keys `<architecture>.ssm.*`, and which of the `layers` are gated delta nets (`recurrent`, one a layer)."""

    taps: int
    state: int
    key_heads: int
    value_heads: int
    recurrent: tuple[bool, ...]

    @property
    def layers(self) -> int:
        return len(self.recurrent)

    @property
    def inner(self) -> int:
        """Values of all heads."""
        return self.value_heads * self.state

    @property
    def channels(self) -> int:
        """Queries, keys and values of all heads, which the convolution goes over."""
        return 2 * self.key_heads * self.state + self.inner

    @property
    def exchanged(self) -> tuple[int, int]:
        """Value heads as they lie: so many times as many key heads, of which each has one in turn."""
        return self.value_heads // self.key_heads, self.key_heads

    def states(self) -> list[StateSpec]:
        """Two for each delta net: the convolution's last inputs, and the rule's matrices."""
        each = [StateSpec((self.taps - 1, self.channels)), StateSpec((self.value_heads, self.state, self.state))]
        return each * sum(self.recurrent)

    def caches(self, hp: Hparams) -> list[CacheSpec]:
        """One for each layer of full attention."""
        return [CacheSpec(hp.kv_heads, hp.key_dim, hp.value_dim)] * (self.layers - sum(self.recurrent))


def read_delta_hparams(gguf: Gguf, hp: Hparams) -> DeltaHparams:
    """Read and check them. Raises `GgufError` naming the key that is missing, mistyped or contradicts another."""
    arch = gguf.architecture
    delta = DeltaHparams(
        taps=read_number(gguf, "ssm.conv_kernel", least=2, limit=MAX_TAPS),
        state=read_number(gguf, "ssm.state_size", limit=MAX_STATE),
        key_heads=read_number(gguf, "ssm.group_count", limit=4096),
        value_heads=read_number(gguf, "ssm.time_step_rank", limit=4096),
        recurrent=_recurrent(gguf, arch, hp.layers),
    )
    if delta.value_heads % delta.key_heads:
        raise GgufError(
            gguf.path,
            f"'{arch}.ssm.time_step_rank' is {delta.value_heads}, which '{arch}.ssm.group_count' "
            f"({delta.key_heads}) does not divide",
        )
    inner = read_number(gguf, "ssm.inner_size")
    if inner != delta.inner:
        raise GgufError(
            gguf.path, f"'{arch}.ssm.inner_size' is {inner}; {delta.value_heads} heads have {delta.inner} values"
        )
    if hp.key_dim != hp.value_dim:
        raise GgufError(gguf.path, f"'{arch}.attention.value_length' is {hp.value_dim}, keys have {hp.key_dim} values")
    _check_sections(gguf, arch, hp.rope_dims // 2)
    return delta


def _recurrent(gguf: Gguf, arch: str, blocks: int) -> tuple[bool, ...]:
    """Which layers are delta nets; the blocks that predict further tokens, which come last, are not among them."""
    predictors = read_number(gguf, "nextn_predict_layers", 0, least=0, limit=blocks - 1)
    key = f"{arch}.attention.recurrent_layers"
    told = gguf.array(key, None)
    if told is not None:
        if len(told) != blocks or told.dtype != np.bool_:
            raise GgufError(gguf.path, f"'{key}' holds {len(told)} {told.dtype}; {blocks} truth values are expected")
        return tuple(bool(each) for each in told[: blocks - predictors])
    interval = read_number(gguf, "full_attention_interval", 4)
    return tuple((layer + 1) % interval != 0 for layer in range(blocks - predictors))


def _check_sections(gguf: Gguf, arch: str, pairs: int) -> None:
    """Text has one position on all axes, for which the interleaved rotation is the plain one: how pairs are dealt out
    matters to images only, but a file must say it."""
    key = f"{arch}.rope.dimension_sections"
    sections = gguf.array(key)
    if not 3 <= len(sections) <= 4 or sections.dtype.kind not in "iu" or (sections < 0).any():
        raise GgufError(gguf.path, f"'{key}' is {sections.tolist()}; three or four counts of pairs are expected")
    if not 0 < int(sections.sum()) <= pairs:
        raise GgufError(gguf.path, f"'{key}' deals out {int(sections.sum())} pairs of {pairs}")


@dataclass(frozen=True)
class DeltaNet:
    """A gated delta net layer (arXiv 2412.06464): short convolution, delta rule, gated norm."""

    qkv: Linear
    z: Linear
    conv: Tensor
    rate: Tensor
    bias: Tensor
    alpha: Linear
    beta: Linear
    norm: Tensor
    out: Linear
    sizes: DeltaHparams
    eps: float

    @classmethod
    def of(cls, weights: Weights, name: str, sizes: DeltaHparams, width: int, eps: float) -> DeltaNet:
        """The tensors of block `name` whose stream is `width` wide."""
        return cls(
            qkv=weights.linear(f"{name}.attn_qkv", sizes.channels, width),
            z=weights.linear(f"{name}.attn_gate", sizes.inner, width),
            conv=weights.tensor(f"{name}.ssm_conv1d.weight", sizes.channels, sizes.taps),
            rate=weights.tensor(f"{name}.ssm_a", sizes.value_heads),
            bias=weights.tensor(f"{name}.ssm_dt.bias", sizes.value_heads),
            alpha=weights.linear(f"{name}.ssm_alpha", sizes.value_heads, width),
            beta=weights.linear(f"{name}.ssm_beta", sizes.value_heads, width),
            norm=weights.tensor(f"{name}.ssm_norm.weight", sizes.state),
            out=weights.linear(f"{name}.ssm_out", width, sizes.inner),
            sizes=sizes,
            eps=eps,
        )

    def __call__(self, h: Ref, states: Sequence[State], batch: Batch) -> Ref:
        """(rows, width) from normalised rows `h` and the layer's two states."""
        sizes, (past, matrices) = self.sizes, states
        qkv, z = self.qkv(h), self.z(h).reshape(sizes.value_heads, sizes.state)
        kept = ops.decay(self.alpha(h), self.rate, self.bias)
        beta = ops.sigmoid(self.beta(h))
        qkv = ops.causal_conv(qkv, self.conv, past, batch.slots, batch.positions)
        qkv = ops.l2_norm(qkv, 2 * sizes.key_heads, sizes.state, self.eps)
        out = ops.gated_delta(qkv, kept, beta, matrices, batch.slots, batch.positions, key_heads=sizes.key_heads)
        return self.out(ops.swiglu(z, ops.rms_norm(out, self.norm, self.eps)).reshape(sizes.inner))


@dataclass(frozen=True)
class GatedAttention:
    """Full attention whose mixed values pass a sigmoid gate, which is projected with the queries."""

    q: Linear
    k: Linear
    v: Linear
    q_norm: Tensor
    k_norm: Tensor
    out: Linear
    sizes: Hparams

    @classmethod
    def of(cls, weights: Weights, name: str, hp: Hparams) -> GatedAttention:
        """The tensors of block `name`."""
        q, k, v = weights.qkv(
            name, 2 * hp.heads * hp.key_dim, hp.kv_heads * hp.key_dim, hp.kv_heads * hp.value_dim, hp.width
        )
        return cls(
            q=q,
            k=k,
            v=v,
            q_norm=weights.tensor(f"{name}.attn_q_norm.weight", hp.key_dim),
            k_norm=weights.tensor(f"{name}.attn_k_norm.weight", hp.key_dim),
            out=weights.linear(f"{name}.attn_output", hp.width, hp.heads * hp.value_dim),
            sizes=hp,
        )

    def __call__(self, h: Ref, cache: Cache, angles: Ref, batch: Batch) -> Ref:
        """(rows, width) from normalised rows `h`. A head's rows of `q` are its query, then its gate."""
        hp = self.sizes
        both = self.q(h).reshape(hp.heads, 2 * hp.key_dim)
        k, v = self.k(h).reshape(hp.kv_heads, hp.key_dim), self.v(h)
        q = ops.rms_norm(ops.narrow(both, 0, hp.key_dim), self.q_norm, hp.rms_eps)
        k = ops.rms_norm(k, self.k_norm, hp.rms_eps)
        q, k = ops.rope(q, angles, RopeStyle.NEOX), ops.rope(k, angles, RopeStyle.NEOX)
        ops.cache_store(cache, k, v, batch.slots, batch.positions)
        mixed = ops.attention(q, cache, batch.slots, batch.positions, scale=1 / math.sqrt(hp.key_dim))
        gate = ops.narrow(both, hp.key_dim, hp.key_dim)
        return self.out(ops.sigmoid_gate(gate, mixed).reshape(hp.heads * hp.value_dim))
