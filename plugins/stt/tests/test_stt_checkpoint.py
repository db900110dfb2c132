"""Checkpoint directories: what is read of them, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.api import ModelFileError, OperatorError
from golem_host.devices.device import Device
from golem_host.plugins import load
from golem_host.testing.inprocess import settings_of
from golem_host.testing.safetensors import safetensors_bytes
from golem_host.testing.tiny_stt import LM, MIMI, lm_tensors, mimi_tensors, tiny_stt_directory
from golem_host_stt.checkpoint import lm_shapes, open_checkpoint
from golem_host_stt.mimi_config import Mimi, mimi_shapes, read_mimi
from golem_host_stt.model import SttModel, languages
from golem_host_stt.plugin import golem_identify
from stt_checks import tiny


def refused(folder: Path) -> str:
    with pytest.raises(ModelFileError) as error:
        SttModel(folder).check()
    return str(error.value)


def rewritten(folder: Path, file: str, **changes: Any) -> Path:
    path = folder / file
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value != "gone"}))
    return folder


def test_a_directory_is_read() -> None:
    model = SttModel(tiny())
    assert (model.name, model.kind, model.quantization, model.context_length) == ("tiny", "stt", "F32", 12)
    assert model.parameter_count == sum(value.size for value in lm_tensors(LM, np.random.default_rng(0)).values())
    model.check()
    shown = model.show(True)
    assert shown["model_info"]["moshi.codebooks"] == 4
    assert any(tensor["name"] == "text_linear.weight" for tensor in shown["tensors"])


def test_the_published_sizes() -> None:
    """Without a configuration of its own the codec is the published one: 2.6B has 323 tensors of the language model."""
    assert read_mimi(None) == Mimi()
    shapes = mimi_shapes(Mimi(), 32)
    assert shapes["encoder.model.12.conv.conv.weight"] == (1024, 512, 16)
    assert shapes["encoder.model.14.conv.conv.weight"] == (512, 1024, 3)
    assert shapes["quantizer.rvq_rest.vq.layers.30._codebook.embedding_sum"] == (2048, 256)
    assert len(lm_shapes(open_checkpoint(tiny()).lm)) == 4 + 1 + 2 * 6 + 2 + 4


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("tokenizer_en_fr_audio_8000.model", ("en", "fr")),
        ("tokenizer_en_audio_4000.model", ("en",)),
        ("tokenizer.model", ()),
    ],
)
def test_languages(name: str, found: tuple[str, ...]) -> None:
    assert languages(name) == found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self_attn.in_proj_weight", "self_attn.in_projs.0.weight"),
        ("self_attn.in_proj_weight", "self_attn.in_proj.weight"),
        ("self_attn.out_proj.weight", "self_attn.out_projs.0.weight"),
    ],
)
def test_names_of_other_releases(tmp_path: Path, old: str, new: str) -> None:
    folder = tiny_stt_directory(tmp_path / "tiny")
    tensors = lm_tensors(LM, np.random.default_rng(1))
    renamed = {name.replace(old, new): value for name, value in tensors.items()}
    (folder / "model.safetensors").write_bytes(safetensors_bytes(renamed))
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.lm_tensors["transformer.layers.0.self_attn.in_proj_weight"].shape == (192, 64)
    doubled = {**tensors, **{name: value for name, value in renamed.items() if name not in tensors}}
    (folder / "model.safetensors").write_bytes(safetensors_bytes(doubled))
    assert "is there under two names" in refused(folder)


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("config.json", "is no speech-to-text checkpoint: there is no config.json in it"),
        ("model.safetensors", "model.safetensors is missing: get the whole repository"),
        ("mimi.safetensors", "mimi.safetensors is missing"),
        ("mimi.json", "mimi.json is missing"),
        ("tokenizer.model", "tokenizer.model is missing"),
    ],
)
def test_files_that_are_missing(tmp_path: Path, missing: str, reason: str) -> None:
    folder = tiny_stt_directory(tmp_path / "tiny")
    (folder / missing).unlink()
    assert reason in refused(folder)
    assert "cannot be opened: No such file or directory" in refused(folder / "nowhere")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_type": "tts"}, "'model_type' is 'tts'; only 'stt' is served"),
        ({"dep_q": 8}, "'dep_q' is 8"),
        ({"delays": [0, 0, 1, 1, 1]}, "only 5 delays of 0 are served"),
        ({"delays": [0] * 4}, "only 5 delays of 0 are served"),
        ({"conditioners": {"speaker": {}}}, "'conditioners' is"),
        ({"quantize": True}, "'quantize' is True"),
        ({"lora": True}, "'lora' is True"),
        ({"existing_text_end_padding_id": 1}, "'existing_text_end_padding_id' is 1"),
        ({"existing_text_padding_id": 300}, "'existing_text_padding_id' is 300"),
        ({"norm": "layer_norm"}, "'norm' is 'layer_norm'"),
        ({"dim": 0}, "'dim' is 0"),
        ({"dim": 66}, "'dim' 66 does not divide into 2 heads of an even size"),
        ({"num_heads": 3}, "does not divide into 3 heads"),
        ({"num_layers": 10**9}, "'num_layers' is 1000000000"),
        ({"context": True}, "'context' is True"),
        ({"hidden_scale": "4"}, "'hidden_scale' is '4'"),
        ({"hidden_scale": 4.125}, "'transformer.layers.0.gating.linear_in.weight' has shape"),
        ({"card": 32}, "'card' is 32; the codec has 16 entries"),
        ({"n_q": 7, "delays": [0] * 8}, "'n_q' is 7; the codec has 6 levels"),
        ({"n_q": 5, "delays": [0] * 6}, "tensors are missing, 1: emb.4.weight"),
        ({"num_layers": 1}, "tensors belong to no part of this model, 6: transformer.layers.1"),
        ({"extra_heads_num_heads": 3}, "belong to no part of this model, 1: extra_heads.3.weight"),
        ({"extra_heads_dim": 5}, "'extra_heads_dim' is 5"),
        ({"stt_config": "gone"}, "'stt_config' is None; an object is expected"),
        ({"stt_config": {"audio_delay_seconds": 0.5}}, "'audio_silence_prefix_seconds' is None"),
        ({"stt_config": {"audio_delay_seconds": -1, "audio_silence_prefix_seconds": 0}}, "'audio_delay_seconds' is -1"),
        ({"moshi_name": "../model.safetensors"}, "the name of a file beside it is expected"),
        ({"tokenizer_name": "gone"}, "'tokenizer_name' is None"),
        ({"mimi_name": ["x"]}, "'mimi_name' is ['x']"),
        ({"text_card": 299}, "'text_emb.weight' has shape (301, 64)"),
    ],
)
def test_configurations_that_are_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    assert reason in refused(rewritten(tiny_stt_directory(tmp_path / "tiny"), "config.json", **changes))


@pytest.mark.parametrize(
    ("part", "changes", "reason"),
    [
        (None, {"sample_rate": 16000}, "'sample_rate' is 16000"),
        (None, {"frame_rate": 25}, "'frame_rate' is 25"),
        (None, {"seanet": 3}, "'seanet' is 3; an object is expected"),
        ("seanet", {"ratios": [8, 6, 5, 5]}, "strides whose product is 960 are expected"),
        ("seanet", {"ratios": "8654"}, "strides whose product is 960"),
        ("seanet", {"causal": False}, "'causal' is False"),
        ("seanet", {"activation": "ReLU"}, "'activation' is 'ReLU'"),
        ("transformer", {"num_heads": 5}, "does not divide into 5 heads"),
        ("transformer", {"d_model": 64}, "'d_model' is 64; only 32 is served"),
        ("quantizer", {"bins": 0}, "'bins' is 0"),
    ],
)
def test_codecs_that_are_refused(tmp_path: Path, part: str | None, changes: dict[str, Any], reason: str) -> None:
    folder = tiny_stt_directory(tmp_path / "tiny")
    whole = {part: {**MIMI[part], **changes}} if part else changes
    assert reason in refused(rewritten(folder, "mimi.json", **whole))


def test_tensors_that_are_refused(tmp_path: Path) -> None:
    folder = tiny_stt_directory(tmp_path / "tiny")
    tensors = lm_tensors(LM, np.random.default_rng(1))
    for name, value, reason in (
        ("text_linear.weight", np.zeros((300, 64), np.int8), "is stored as I8; F32, F16 and BF16 are served"),
        ("out_norm.alpha", np.ones((64, 1), np.float32), "has shape (64, 1); (64,) is expected"),
    ):
        (folder / "model.safetensors").write_bytes(safetensors_bytes({**tensors, name: value}))
        assert reason in refused(folder)
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors)[:-100])
    assert "truncated" in refused(folder)
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    codec = mimi_tensors(MIMI, np.random.default_rng(1))
    del codec["downsample.conv.conv.conv.weight"]
    (folder / "mimi.safetensors").write_bytes(safetensors_bytes(codec))
    assert "tensors are missing, 1: downsample.conv.conv.conv.weight" in refused(folder)


def test_identified(tmp_path: Path) -> None:
    plugins = load(["stt"])
    settings = settings_of(tmp_path, specs=plugins.settings())
    found = golem_identify(tiny(), settings)
    assert found is not None and not found.problems and found.setting == "stt-model"
    assert found.memory is not None and found.memory > found.size_bytes
    quantized = settings_of(tmp_path, {"stt-quantize": "q8_0"}, plugins.settings())
    smaller = golem_identify(tiny(), quantized)
    assert smaller is not None and smaller.memory is not None and smaller.memory > found.memory
    folder = rewritten(tiny_stt_directory(tmp_path / "tiny"), "config.json", dep_q=8)
    broken = golem_identify(folder, settings)
    assert broken is not None and "'dep_q' is 8" in broken.problems[0]
    (folder / "config.json").write_text("{}")
    assert golem_identify(folder, settings) is None
    (folder / "config.json").write_text("not JSON")
    assert golem_identify(folder, settings) is None


def test_a_device_that_cannot_is_refused(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, specs=load(["stt"]).settings())
    with pytest.raises(OperatorError, match="runs on the processor only, not on vulkan:0"):
        SttModel(tiny()).load(Device("vulkan:0", lambda: None), settings, lambda _: None)
