"""qwen35 files whose weights are folded with a Hadamard transform (Bonsai 2): the same model, and what is refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from family_checks import FLOAT_TOLERANCE, random_tokens
from family_forward import apart, forward
from golem_host.devices.cpu import CpuBackend
from golem_host.ops.hadamard import Hadamard
from golem_host.testing.tiny import tiny_gguf
from golem_host.testing.tiny_folded import fold
from golem_host.weights.gguf import GgufError, open_gguf
from golem_host.weights.types import GgmlType
from golem_host_chat.families import family_of
from golem_host_chat.passes import Passes

TOKENS = random_tokens(24)
WIDTHS: dict[str, Any] = {"width": 128, "feed_forward": 192, "tied": False}
P = "prism.hadamard."


def folded(folder: Path, *, block: int = 64, grouped: bool = True, **options: Any) -> Path:
    change = partial(fold, block=block, grouped=grouped)
    return tiny_gguf(folder / "folded.gguf", "qwen35", **{**WIDTHS, "change": change, **options})


@pytest.mark.parametrize("block", [8, 64])
@pytest.mark.parametrize("grouped", [True, False])
def test_a_folded_file_is_the_same_model(tmp_path: Path, each_backend: CpuBackend, block: int, grouped: bool) -> None:
    plain = tiny_gguf(tmp_path / "plain.gguf", "qwen35", **WIDTHS)
    expected = forward(plain, TOKENS, each_backend)
    found = forward(folded(tmp_path, block=block, grouped=grouped), TOKENS, each_backend)
    assert apart(found["logits"], expected["logits"]) < FLOAT_TOLERANCE
    assert apart(found["attn_out-0"], expected["attn_out-0"]) < 3e-6  # a few roundings of float32 more


def test_signs_of_one_everywhere(tmp_path: Path, each_backend: CpuBackend) -> None:
    told: dict[str, Any] = {f"{P}sign_values": [1] * (128 + 256 + 192)}
    explicit = forward(folded(tmp_path, metadata=told), TOKENS, each_backend)["logits"]
    told = {f"{P}sign_mode": "identity", f"{P}sign_widths": None, f"{P}sign_values": None}
    np.testing.assert_array_equal(forward(folded(tmp_path, metadata=told), TOKENS, each_backend)["logits"], explicit)


@pytest.mark.parametrize("kind", ["Q1_0", "Q2_0", "PQ2_0", "PTQ1_0"])
def test_types_of_few_bits(tmp_path: Path, each_backend: CpuBackend, kind: str) -> None:
    path = folded(tmp_path, quantization=kind, width=256, feed_forward=256, block=128)
    with open_gguf(path) as gguf:
        assert gguf.tensors["blk.0.attn_qkv.weight"].type is GgmlType[kind]
    whole = forward(path, TOKENS, each_backend)["logits"]
    assert np.isfinite(whole).all() and whole.std() > 0.1
    np.testing.assert_array_equal(forward(path, TOKENS, each_backend, chunk=5)["logits"], whole)


def test_an_input_of_several_products_is_transformed_once(tmp_path: Path) -> None:
    with open_gguf(folded(tmp_path)) as gguf:
        recording = Passes(family_of(gguf), CpuBackend(threads=1), slots=1, context=8)._record(1)
    # The table; of each of four layers the input and output of the mixer and of the feed-forward; the head.
    assert sum(isinstance(command.op, Hadamard) for command in recording.commands) == 1 + 4 * 4 + 1


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"version": 2}, "'prism.hadamard.version' is 2; version 1 is served"),
        ({"version": None}, "'prism.hadamard.version' is missing"),
        ({"rotation": 1}, "'prism.hadamard.rotation' is not known of version 1"),
        ({"block_size": None}, "'prism.hadamard.block_size' is missing"),
        ({"block_size": 48}, "'prism.hadamard.block_size' is 48; a power of two up to 4096"),
        ({"block_size": 8192}, "'prism.hadamard.block_size' is 8192"),
        ({"block_size": 1024}, "in blocks of 1024 do not share out"),
        ({"transform": "cosine"}, "'prism.hadamard.transform' is 'cosine'; 'normalized-sylvester-walsh-hadamard'"),
        ({"axis": None}, "'prism.hadamard.axis' is missing"),
        ({"axis": "output"}, "'prism.hadamard.axis' is 'output'"),
        ({"sign_mode": "seeded"}, "'prism.hadamard.sign_mode' is 'seeded'"),
        ({"sign_mode": "identity"}, "'prism.hadamard.sign_widths' is there, though"),
        ({"sign_widths": None}, "'prism.hadamard.sign_widths' is missing"),
        ({"sign_widths": [128, 128, 320]}, "different widths are expected"),
        ({"sign_widths": [128, 256]}, "do not share out 576 signs"),
        ({"sign_widths": [64, 256, 256]}, "different widths are expected"),
        ({"sign_widths": [64, 512]}, "'prism.hadamard.sign_widths' lacks 128, the width of tensor 'blk.0"),
        ({"sign_values": [1, 0] * 288}, "'prism.hadamard.sign_values' holds other values than 1 and -1"),
        ({"weight_names": None}, "'prism.hadamard.weight_names' is missing"),
        ({"weight_names": ["blk.9.ffn_up.weight"]}, "lists 'blk.9.ffn_up.weight', which is no tensor"),
        ({"weight_names": ["output.weight"]}, "lacks 'blk.0.ssm_out.weight', whose heads are grouped"),
        (
            {"weight_names": ["blk.0.attn_norm.weight"], "gdn_v_grouped": False},
            "'blk.0.attn_norm.weight', which",
        ),
        ({"inverse_weight_names": ["output.weight"]}, "lists 'output.weight'; only 'token_embd.weight' is served"),
        ({"gdn_v_grouped": None}, "'prism.hadamard.gdn_v_grouped' is missing"),
        ({"gdn_v_grouped": 1}, "'prism.hadamard.gdn_v_grouped'"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = folded(tmp_path, metadata={P + key: value for key, value in metadata.items()})
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)


def test_a_folded_table_that_is_the_head_too_is_refused(tmp_path: Path) -> None:
    with open_gguf(folded(tmp_path, tied=True)) as gguf, pytest.raises(GgufError, match="'output.weight' is missing"):
        family_of(gguf)


@pytest.mark.parametrize("family", ["llama", "qwen3", "qwen35moe"])
def test_other_families_refuse_folded_files(tmp_path: Path, family: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", family, metadata={f"{P}version": 1})
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=f"folded .*, which {family} is not here"):
        family_of(gguf)
