"""Files of true shape: scaled down they load here and in llama.cpp; full ones are as large as published files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.text.tokenizer import tokenizer_from_gguf
from golem_host.weights.gguf import open_gguf
from golem_host.weights.types import GgmlType
from golem_host_embed.checkpoint import open_checkpoint
from golem_host_embed.passes import Passes
from oracle_client import Oracle
from shape_dense import Dense
from shape_encoders import F16, Q8_0, nomic_bert_moe
from shape_families import Q4_0, Q4_K_M, Experts, Shape, gemma4, qwen3, whole
from shape_gemma4_large import LargeGemma4
from shape_qwen35 import Hybrid
from shapes import SHAPES, write_shape

SMALL = {
    "qwen3 Q4_0": lambda: qwen3(
        Q4_0, layers=3, width=256, feed_forward=512, heads=4, kv_heads=2, head_width=64, tokens=2000
    ),
    "qwen3 Q4_K_M": lambda: qwen3(Q4_K_M, layers=8, width=256, feed_forward=512, heads=4, kv_heads=2, tokens=2000),
    "qwen3moe": lambda: qwen3(
        Q4_K_M,
        layers=2,
        width=256,
        feed_forward=512,
        heads=4,
        kv_heads=2,
        tokens=2000,
        tied=False,
        experts=Experts(count=8, used=2, feed_forward=256),
    ),
    "gemma4": lambda: gemma4(
        Q4_K_M, layers=10, shared=5, width=256, feed_forward=512, heads=2, head_width=256, window=32, tokens=3000
    ),
    "llama": lambda: Dense("llama", 3, 256, 512, 4, 2, 64, 2000, rope_factors=True)(Q4_K_M),
    "mixtral": lambda: Dense("llama", 2, 256, 512, 4, 2, 64, 2000, tied=False, experts=Experts(4, 2, 512))(Q4_K_M),
    "mistral3": lambda: Dense("mistral3", 2, 256, 512, 4, 2, 64, 2000)(Q4_K_M),
    "smollm3": lambda: Dense("smollm3", 4, 256, 512, 4, 2, 64, 2000)(Q4_K_M),
    "qwen2": lambda: Dense("qwen2", 2, 256, 512, 4, 2, 64, 2000, biases=True)(Q4_K_M),
    "ternary": lambda: Dense("qwen3", 2, 256, 512, 4, 2, 64, 2000, head_norms=True)(whole("Q2_0", 41)),
    "gemma2": lambda: Dense("gemma2", 2, 256, 512, 4, 2, 64, 3000, window=32, post_norms=True)(Q4_K_M),
    "gemma3": lambda: Dense("gemma3", 7, 256, 512, 4, 2, 64, 3000, window=32, post_norms=True, head_norms=True)(Q4_K_M),
    "gemma4 26B": lambda: LargeGemma4(
        6, 256, 512, 4, 2, 1, head_width=128, window=32, tokens=3000, experts=Experts(8, 2, 256)
    )(Q4_0),
    "gemma4 12B": lambda: LargeGemma4(6, 256, 512, 4, 2, 1, head_width=128, window=32, tokens=3000)(Q4_K_M),
    "qwen35": lambda: Hybrid(4, 256, 512, 4, 2, 2, 4, head_width=128, state=64, tokens=2000)(Q4_K_M),
    "qwen35moe": lambda: Hybrid(
        4, 256, 256, 4, 2, 2, 4, head_width=128, state=64, tokens=2000, tied=False, experts=Experts(8, 2, 256)
    )(Q4_K_M),
}


@pytest.fixture(scope="module", params=SMALL)
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shapes") / "small.gguf"
    write_shape(SMALL[request.param](), path)
    return path


def test_the_host_reads_it(small: Path) -> None:
    with open_gguf(small) as gguf:
        for tensor in gguf.tensors.values():
            values = tensor.float32()
            assert np.isfinite(values).all(), tensor.name
            if len(tensor.shape) > 1 and tensor.type is not GgmlType.F32:
                assert 0.2 < values.std() * math.sqrt(tensor.shape[-1]) < 2.5, tensor.name
    assert [path.name for path in small.parent.iterdir()] == [small.name]


def test_its_vocabulary_gives_texts_back(small: Path) -> None:
    with open_gguf(small) as gguf:
        tokenizer = tokenizer_from_gguf(gguf)
        text = "Hello world: the cat, abcdef \u4f60\u597d \U0001f600\n"
        ids = tokenizer.encode(text, add_special=False)
        assert tokenizer.decode(ids).decode() == text
        assert len(tokenizer.encode("abc", add_special=False)) < 3
        assert len(tokenizer.vocab) == gguf.tensors["token_embd.weight"].shape[0]
        assert tokenizer.vocab.eos is not None
        assert tokenizer.vocab.text(tokenizer.vocab.eos) in ("<|endoftext|>", "<turn|>")


@pytest.mark.oracle
def test_llama_cpp_computes_with_it(small: Path, oracle_python: str) -> None:
    with Oracle(oracle_python) as oracle:
        logits = oracle.llama("logits", small, tokens=[300, 301, 302, 303])["logits"]
    assert np.isfinite(logits).all()
    assert 1 < logits.std() < 10


ENCODERS = {"F16": F16, "Q8_0": Q8_0}


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ENCODERS)
def test_encoders_load_here_and_in_llama_cpp(tmp_path: Path, oracle_python: str, kind: str) -> None:
    path = tmp_path / "small.gguf"
    small = nomic_bert_moe(ENCODERS[kind], layers=2, width=64, feed_forward=96, heads=2, tokens=500)
    write_shape(small, path)
    checkpoint = open_checkpoint(path)
    assert checkpoint.tensors["blk.1.ffn_up_exps.weight"].type_name == kind
    [text] = checkpoint.tokens().texts(["ab cd zz"], checkpoint.context_length)
    passes = Passes(checkpoint, CpuBackend(threads=1), capacity=64)
    passes.prepare(lambda done: None)
    ids = np.array(text.ids, np.int32)
    found = passes.run(ids, np.zeros_like(ids), np.array([len(ids)], np.int32))[0]
    with Oracle(oracle_python) as oracle:
        expected = oracle.llama("embed", path, texts=[text.ids])["vectors"][0]
    assert found @ expected > 0.9999 * np.linalg.norm(found) * np.linalg.norm(expected)


def test_the_seed_decides_every_byte(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    for path, seed in ((first, 0), (second, 0), (other, 1)):
        write_shape(SMALL["qwen3 Q4_0"](), path, seed=seed)
    assert first.read_bytes() == second.read_bytes() != other.read_bytes()


def size(shape: Shape) -> int:
    kinds = [(tensor, GgmlType[tensor.kind]) for tensor in shape.tensors]
    return sum(math.prod(tensor.dims) // kind.block_size * kind.block_bytes for tensor, kind in kinds)


@pytest.mark.parametrize(
    ("name", "tensors", "tokens", "megabytes"),
    [
        ("qwen3-0.6b", 310, 151936, (380, 400)),
        ("qwen3-4b", 398, 151936, (2340, 2390)),
        ("gemma4-e2b", 601, 262144, (3050, 3450)),
        ("qwen3-30b-a3b-8", 3 + 8 * 12, 151936, (3400, 3600)),
        ("llama-3.2-1b", 147, 128256, (780, 830)),
        ("qwen2.5-1.5b", 338, 151936, (900, 1000)),
        ("bonsai-1.7b-q1_0", 310, 151936, (235, 255)),
        ("qwen3.5-0.8b", 320, 248320, (450, 560)),
        ("nomic-v2-f16", 142, 250048, (940, 960)),
        ("nomic-v2-q8_0", 142, 250048, (500, 520)),
    ],
)
def test_full_shapes_are_those_of_published_files(
    name: str, tensors: int, tokens: int, megabytes: tuple[int, int]
) -> None:
    shape = SHAPES[name]()
    assert len(shape.tensors) == tensors
    assert len(shape.vocabulary) == tokens == len(set(shape.vocabulary.tokens))
    assert megabytes[0] < size(shape) / 1e6 < megabytes[1]
