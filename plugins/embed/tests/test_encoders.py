"""Forward passes against llama.cpp and transformers, and the promise that a text's bits ignore its company."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoder_checks import computed, cosines, passes_of, random_texts
from golem_host.api import ModelFileError
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from golem_host.testing.tiny_bert import tiny_bert_directory, tiny_bert_gguf, word_pieces
from golem_host.testing.tiny_nomic_bert import tiny_nomic_gguf
from golem_host_embed.checkpoint import open_checkpoint
from golem_host_embed.passes import encoder_of
from oracle_client import Oracle

VOCAB = len(word_pieces())
NOMIC_VOCAB = 60

FLOAT_COSINE = 0.999999
"""To llama.cpp on float weights: both round activations to half where weights are half, and GELU to half everywhere."""
QUANTIZED_COSINE = 0.9999
"""On quantized weights llama.cpp rounds activations as this host does; what a float32 sum in another order pushes over
a border is one step of an 8-bit code, and in a mixture may exchange two experts that are equally good."""


@pytest.mark.oracle
@pytest.mark.parametrize("make", [tiny_bert_gguf, tiny_nomic_gguf])
@pytest.mark.parametrize("pooling", [1, 2, 3])
def test_vectors_are_llama_cpps(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, make, pooling: int) -> None:
    path = make(tmp_path / "m.gguf", pooling=pooling)
    texts = random_texts(9, NOMIC_VOCAB)
    found = computed(passes_of(path, each_backend), texts)
    assert cosines(found, oracle.llama("embed", path, texts=texts)["vectors"]).min() > FLOAT_COSINE


@pytest.mark.oracle
@pytest.mark.parametrize("make", [tiny_bert_gguf, tiny_nomic_gguf])
@pytest.mark.parametrize(
    "quantization",
    ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"],
)
def test_every_quantization(tmp_path: Path, oracle: Oracle, kernels: CpuBackend, make, quantization: str) -> None:
    path = make(tmp_path / "m.gguf", quantization=quantization, width=256, ff_width=512, layers=2)
    texts = random_texts(6, NOMIC_VOCAB)
    found = computed(passes_of(path, kernels), texts)
    expected = oracle.llama("embed", path, texts=texts)["vectors"]
    assert cosines(found, expected).min() > (FLOAT_COSINE if quantization == "F16" else QUANTIZED_COSINE)


@pytest.mark.oracle
def test_vectors_are_transformers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    folder = tiny_bert_directory(tmp_path / "bert")
    texts = random_texts(6, VOCAB)
    segments = [[int(at > len(text) // 2) for at in range(len(text))] for text in texts]
    found = computed(passes_of(folder, each_backend), texts, segments)
    expected = oracle.encoder(folder, texts, segments)
    # float32 throughout: sums in another order, over two layers
    np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max())


@pytest.mark.oracle
def test_scores_are_transformers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    folder = tiny_bert_directory(tmp_path / "cross", classifier=True)
    texts = random_texts(6, VOCAB)
    segments = [[int(at > len(text) // 2) for at in range(len(text))] for text in texts]
    passes = passes_of(folder, each_backend)
    found = computed(passes, texts, segments)
    assert found.shape == (6, passes.width) == (6, 1)
    np.testing.assert_allclose(found, oracle.encoder(folder, texts, segments), atol=4e-6)


@pytest.mark.oracle
def test_scores_are_llama_cpps(tmp_path: Path, oracle: Oracle, kernels: CpuBackend) -> None:
    """llama.cpp knows one segment."""
    path = tiny_bert_gguf(tmp_path / "cross.gguf", pooling=4)
    texts = random_texts(6, VOCAB)
    expected = oracle.llama("embed", path, texts=texts, width=1)["vectors"]
    np.testing.assert_allclose(computed(passes_of(path, kernels), texts), expected, atol=2e-3)  # GELU in half


def test_split_and_fused_projections_are_one_model(tmp_path: Path, kernels: CpuBackend) -> None:
    """Queries, keys and values as three matrices, and as one."""
    split = open_checkpoint(tiny_bert_gguf(tmp_path / "m.gguf", quantization="Q8_0"))
    tensors = dict(split.tensors)
    for layer in range(split.hparams.layers):
        for kind in ("weight", "bias"):
            q, k, v = (tensors.pop(f"blk.{layer}.attn_{part}.{kind}") for part in "qkv")
            data = np.concatenate([each.data for each in (q, k, v)])
            name, shape = f"blk.{layer}.attn_qkv.{kind}", (3 * q.shape[0], *q.shape[1:])
            tensors[name] = replace(q, name=name, shape=shape, stored=(q.type, data))
    fused = passes_of(replace(split, tensors=tensors), kernels)
    texts = random_texts(4, VOCAB)
    assert computed(fused, texts).tobytes() == computed(passes_of(split, kernels), texts).tobytes()


@pytest.mark.parametrize("quantization", ["F32", "F16", "Q8_0", "Q4_K"])
@pytest.mark.parametrize("make", [tiny_bert_gguf, tiny_nomic_gguf])
def test_a_text_alone_and_in_company(tmp_path: Path, make, quantization: str) -> None:
    """The same bits alone, among others, in another order, on 1 to 3 threads, with weights re-laid or not."""
    if library.load() is None:
        pytest.skip("the native kernels were not built")
    path = make(tmp_path / "m.gguf", quantization=quantization, width=256, ff_width=512, layers=2)
    texts = random_texts(40, NOMIC_VOCAB, longest=60)
    results = []
    for threads, repack in ((1, True), (2, True), (3, True), (2, False)):
        passes = passes_of(path, CpuBackend(threads=threads, repack=repack), capacity=4096)
        results.append(together := computed(passes, texts))
        assert computed(passes, texts[::-1])[::-1].tobytes() == together.tobytes()
        for at in range(0, 40, 7):
            assert computed(passes, texts[at : at + 1]).tobytes() == together[at : at + 1].tobytes()
    assert len({each.tobytes() for each in results}) == 1


def test_random_company(tmp_path: Path, kernels: CpuBackend) -> None:
    path = tiny_nomic_gguf(tmp_path / "m.gguf", quantization="F16")
    passes, rng = passes_of(path, kernels, capacity=4096), np.random.default_rng(1)
    texts = random_texts(30, NOMIC_VOCAB, longest=120)
    alone = np.concatenate([computed(passes, [text]) for text in texts])
    for _ in range(12):
        chosen = rng.permutation(30)[: rng.integers(1, 31)]
        assert computed(passes, [texts[i] for i in chosen]).tobytes() == alone[chosen].tobytes()


def test_twins_keep_texts_apart_too(tmp_path: Path) -> None:
    path = tiny_nomic_gguf(tmp_path / "m.gguf", layers=2)
    passes = passes_of(path, CpuBackend(threads=2, native=False))
    texts = random_texts(5, NOMIC_VOCAB, longest=12)
    together = computed(passes, texts)
    for at, text in enumerate(texts):
        assert computed(passes, [text]).tobytes() == together[at : at + 1].tobytes()


@pytest.mark.real
@pytest.mark.oracle
def test_minilm_is_transformers(minilm_path: Path, oracle: Oracle, kernels: CpuBackend) -> None:
    """Real weights, 200 sentences of real tokens."""
    checkpoint = open_checkpoint(minilm_path)
    words = ["the", "cat", "sat", "on", "a", "mat;", "quantum", "chromodynamics,", "rewritten!", "Ünïcödé", "42"]
    rng = np.random.default_rng(3)
    sentences = [" ".join(rng.choice(words, rng.integers(1, 40))) for _ in range(200)]
    texts = [text.ids for text in checkpoint.tokens().texts(sentences, checkpoint.context_length)]
    found = computed(passes_of(minilm_path, kernels, capacity=16384), texts)
    expected = oracle.encoder(minilm_path, texts, [[0] * len(text) for text in texts])
    assert cosines(found, expected).min() > 0.9999999


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("blk.1.attn_output_norm.bias", "tensor 'blk.1.attn_output_norm.bias' is missing"),
        ("token_types.weight", "tensor 'token_types.weight' is missing; rows of 64 values"),
        ("position_embd.weight", "tensor 'position_embd.weight' is missing"),
        ("blk.0.ffn_up.weight", "tensor 'blk.0.ffn_up.weight' is missing"),
    ],
)
def test_tensors_that_are_missing(tmp_path: Path, name: str, reason: str) -> None:
    checkpoint = open_checkpoint(tiny_bert_gguf(tmp_path / "m.gguf"))
    tensors = {known: tensor for known, tensor in checkpoint.tensors.items() if known != name}
    with pytest.raises(ModelFileError, match=reason):
        encoder_of(replace(checkpoint, tensors=tensors))


def test_tensors_of_another_shape(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_nomic_gguf(tmp_path / "m.gguf"))
    tensors = dict(checkpoint.tensors)
    tensors["blk.1.ffn_down_exps.weight"] = tensors["blk.1.ffn_up_exps.weight"]
    with pytest.raises(ModelFileError, match=r"'blk\.1\.ffn_down_exps\.weight' has shape \[8, 96, 64\], \[8, 64, 96\]"):
        encoder_of(replace(checkpoint, tensors=tensors))
