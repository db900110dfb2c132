"""Storage types of weights: what no product or reading is defined for is refused when a file is opened to be served."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from golem_host.testing.tiny import tiny_gguf
from golem_host.weights.gguf import GgufError, open_gguf
from golem_host.weights.types import GgmlType
from golem_host_chat.families import family_of

EVERY_WEIGHT_TYPE = [
    kind.name
    for kind in GgmlType
    if kind not in (GgmlType.Q8_1, GgmlType.Q8_K, GgmlType.F64) and kind.name not in ("I8", "I16", "I32", "I64")
]


def stored_as(folder: Path, name: str, type_id: int) -> Path:
    """A tiny checkpoint of float32 whose header calls tensor `name` by another type, for which its bytes suffice."""
    path = tiny_gguf(folder / "tiny.gguf", "llama", width=256, metadata={"prism.made_up": 1})
    data = bytearray(path.read_bytes())
    text = name.encode()
    at = data.index(struct.pack("<Q", len(text)) + text) + 8 + len(text)
    (dimensions,) = struct.unpack_from("<I", data, at)
    at += 4 + 8 * dimensions
    assert struct.unpack_from("<I", data, at) == (GgmlType.F32,)
    struct.pack_into("<I", data, at, type_id)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "type_id", "message"),
    [
        ("blk.1.ffn_up.weight", GgmlType.Q8_K, "'blk.1.ffn_up.weight': values of type Q8_K cannot be read"),
        ("blk.0.attn_q.weight", GgmlType.I32, "'blk.0.attn_q.weight' is a matrix of type I32"),
        ("token_embd.weight", GgmlType.I8, "'token_embd.weight' is a matrix of type I8"),
        ("blk.0.ffn_norm.weight", GgmlType.Q8_1, "'blk.0.ffn_norm.weight': values of type Q8_1 cannot be read"),
        ("blk.0.ffn_norm.weight", 77, "'blk.0.ffn_norm.weight' is stored as ggml type 77"),
        ("blk.0.ffn_down.weight", 31, "'blk.0.ffn_down.weight' is stored as ggml type 31"),
    ],
)
def test_refused(tmp_path: Path, name: str, type_id: int, message: str) -> None:
    with open_gguf(stored_as(tmp_path, name, type_id)) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)


@pytest.mark.parametrize("kind", EVERY_WEIGHT_TYPE)
def test_every_weight_type_is_taken(tmp_path: Path, kind: str) -> None:
    with open_gguf(stored_as(tmp_path, "blk.0.ffn_down.weight", GgmlType[kind])) as gguf:
        family_of(gguf)
        assert gguf.tensors["blk.0.ffn_down.weight"].float32(slice(0, 2)).shape == (2, 512)
