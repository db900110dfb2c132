"""The shape of nomic-embed-text-v2-moe: metadata, tensors as in the published GGUF files, vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from golem_host.testing.tiny_vocab import CONTROL, NORMAL, UNKNOWN, Vocabulary
from shape_families import Mix, Shape, TensorShape, metadata_of, random_matrix, random_norm
from shape_vocabulary import made_up_pieces

F16 = Mix(1, lambda role, layer, layers: "F16")
Q8_0 = Mix(7, lambda role, layer, layers: "Q8_0")


def nomic_bert_moe(
    mix: Mix,
    *,
    layers: int = 12,
    width: int = 768,
    feed_forward: int = 3072,
    heads: int = 12,
    experts: int = 8,
    tokens: int = 250048,
) -> Shape:
    """Nomic Embed v2 unless told otherwise: every second layer is a mixture of which two experts are used."""
    keys = {
        "block_count": layers,
        "context_length": 512,
        "embedding_length": width,
        "feed_forward_length": feed_forward,
        "attention.head_count": heads,
        "attention.layer_norm_epsilon": 1e-5,
        "attention.causal": False,
        "pooling_type": 1,
        "rope.freq_base": 1e4,
        "moe_every_n_layers": 2,
        "expert_count": experts,
        "expert_used_count": 2,
    }

    def linear(name: str, columns: int, rows: int, gain: float = 1.0) -> Iterator[TensorShape]:
        yield random_matrix(name, (columns, rows), mix.kind(name, 0, layers), gain)
        yield TensorShape(f"{name}.bias", (rows,), "F32", 0.1)

    def full_norm(name: str) -> Iterator[TensorShape]:
        yield random_norm(name, width)
        yield TensorShape(f"{name}.bias", (width,), "F32", 0.1)

    def block(at: int) -> Iterator[TensorShape]:
        name = f"blk.{at}"
        yield from linear(f"{name}.attn_qkv", width, 3 * width, 1.5)
        yield from linear(f"{name}.attn_output", width, width)
        yield from full_norm(f"{name}.attn_output_norm")
        if at % 2:
            yield random_matrix(f"{name}.ffn_gate_inp", (width, experts), "F32", 2.0)
            yield random_matrix(
                f"{name}.ffn_up_exps", (width, feed_forward, experts), mix.kind("ffn_up_exps", at, layers), 2.0
            )
            down = mix.kind("ffn_down_exps", at, layers)
            yield random_matrix(f"{name}.ffn_down_exps", (feed_forward, width, experts), down, 2.0)
        else:
            yield from linear(f"{name}.ffn_up", width, feed_forward)
            yield from linear(f"{name}.ffn_down", feed_forward, width)
        yield from full_norm(f"{name}.layer_output_norm")

    tensors = [
        random_matrix("token_embd", (width, tokens), mix.kind("token_embd", 0, layers)),
        TensorShape("token_types.weight", (width, 1), "F32", 0.02),
        *full_norm("token_embd_norm"),
    ]
    for at in range(layers):
        tensors += block(at)
    return Shape(metadata_of("nomic-bert-moe", keys, mix), tensors, _vocabulary(tokens))


def _vocabulary(size: int) -> Vocabulary:
    """XLM-RoBERTa's kind (Unigram), without its map of characters."""
    head = ["<s>", "<pad>", "</s>", "<unk>"]
    words = [f"\u2581{piece}" for piece in islice(made_up_pieces(set()), size - len(head) - 2)]
    tokens = [*head, "\u2581", *words, "<mask>"]
    keys: dict[str, bool | int | str] = {
        "pre": "default",
        "token_type_count": 1,
        "add_space_prefix": True,
        "remove_extra_whitespaces": True,
        "bos_token_id": 0,
        "padding_token_id": 1,
        "eos_token_id": 2,
        "seperator_token_id": 2,
        "unknown_token_id": 3,
        "add_bos_token": True,
        "add_eos_token": True,
    }
    types = [CONTROL, CONTROL, CONTROL, UNKNOWN, *[NORMAL] * (len(words) + 1), CONTROL]
    scores = [0.0] * 4 + [-2.0 - 1e-5 * rank for rank in range(len(words) + 1)] + [0.0]
    return Vocabulary("t5", tokens, types, scores=scores, keys=keys, chat_template="")
