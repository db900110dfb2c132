"""Checkpoint directories: what is read of them, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.api import ModelFileError
from golem_host.config import CORE, resolve
from golem_host.testing.safetensors import safetensors_bytes
from golem_host.testing.tiny_laya import CONFIG, ENCODER, random_tensors, tiny_laya_directory
from golem_host_laya.checkpoint import open_checkpoint, temperature
from golem_host_laya.model import LayaModel
from golem_host_laya.plugin import golem_models, golem_settings
from golem_host_laya.tokens import Tokens


def refused(folder: Path) -> str:
    with pytest.raises(ModelFileError) as error:
        LayaModel(folder).check()
    return str(error.value)


def test_a_directory_is_read(tmp_path: Path) -> None:
    model = LayaModel(tiny_laya_directory(tmp_path / "laya-multilingual", dtype="BF16"))
    assert (model.name, model.kind, model.quantization, model.context_length) == (
        "laya-multilingual",
        "laya",
        "BF16",
        256,
    )
    assert model.parameter_count == sum(value.size for value in random_tensors(ENCODER, CONFIG, 0).values())
    model.check()
    assert model.show(True)["model_info"]["modernbert.attention.sliding_window"] == 4


@pytest.mark.parametrize(
    ("encoder", "thetas"),
    [
        ({}, (10000.0, 160000.0)),
        ({"local_rope_theta": None, "global_rope_theta": None}, (10000.0, 160000.0)),
        ({"local_rope_theta": 160000.0}, (160000.0, 160000.0)),
        ({"rope_parameters": {"rope_theta": 5000, "rope_type": "default"}}, (5000.0, 5000.0)),
        ({"rope_parameters": {"full_attention": {"rope_theta": 7000.0}}}, (10000.0, 7000.0)),
        ({"rope_parameters": {"full_attention": {}, "sliding_attention": {"rope_theta": 9.0}}}, (9.0, 160000.0)),
    ],
)
def test_rotations(tmp_path: Path, encoder: dict[str, Any], thetas: tuple[float, float]) -> None:
    with open_checkpoint(tiny_laya_directory(tmp_path / "tiny", encoder=encoder)) as checkpoint:
        assert checkpoint.hparams.encoder.thetas == thetas


def test_a_null_local_base_is_the_global_one(tmp_path: Path) -> None:
    folder = tiny_laya_directory(tmp_path / "tiny")
    (folder / "encoder" / "config.json").write_text(json.dumps({**ENCODER, "local_rope_theta": None}))
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.hparams.encoder.thetas == (160000.0, 160000.0)


@pytest.mark.parametrize(
    ("value", "applied"),
    [(1.25, 1.25), (0.1, 0.5), (9, 5.0), ("2", 2.0), ("x", 1.0), (True, 1.0), (None, 1.0), ([], 1.0)]
    + [(float(word), 1.0) for word in ("nan", "inf", "-inf")],
)
def test_temperatures(value: Any, applied: float) -> None:
    assert temperature(value) == applied


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("rl_agent_config.json", "is no laya checkpoint: there is no rl_agent_config.json"),
        ("encoder/config.json", "encoder/config.json is missing: get the whole repository"),
        ("tokenizer/tokenizer.json", "tokenizer/tokenizer.json is missing"),
        ("tokenizer/tokenizer_config.json", "tokenizer/tokenizer_config.json is missing"),
        ("model.safetensors", "cannot be opened"),
    ],
)
def test_files_that_are_missing(tmp_path: Path, missing: str, reason: str) -> None:
    folder = tiny_laya_directory(tmp_path / "tiny")
    (folder / missing).unlink()
    assert reason in refused(folder)
    assert "cannot be opened: No such file or directory" in refused(folder / "nowhere")


@pytest.mark.parametrize(
    ("encoder", "config", "reason"),
    [
        ({}, {"option_layout": "parallel"}, "'option_layout' is 'parallel'; only 'sequential' is served"),
        ({}, {"encoder": None}, "keys are missing: encoder"),
        ({}, {"temperature": [1.0, 1.0]}, "'temperature' is [1.0, 1.0]; a list of 3 numbers is expected"),
        ({}, {"act_costs": [1]}, "'act_costs' is [1]; an object is expected"),
        ({}, {"max_len": 0}, "'max_len' is 0; a number from 1 to 8192 is expected"),
        ({}, {"head_layers": -1}, "'head_layers' is -1; a number from 0 to 64"),
        ({"model_type": "bert"}, {}, "'model_type' is 'bert'; only 'modernbert' is served"),
        ({"hidden_activation": "silu"}, {}, "'hidden_activation' is 'silu'"),
        ({"norm_bias": True}, {}, "'norm_bias' is True"),
        ({"num_attention_heads": 3}, {}, "rows of 128 values do not divide into 3 heads"),
        ({"norm_eps": "x"}, {}, "'norm_eps' is 'x'"),
        ({"local_attention": 1}, {}, "'local_attention' is 1; a number from 2"),
        ({"layer_types": ["full_attention"]}, {}, "'layer_types' does not list the kinds of 4 layers"),
        ({"layer_types": ["full_attention"] * 3 + ["x"]}, {}, "'layer_types' names 'x'"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, {}, "scaling of full_attention"),
        ({"rope_scaling": {"type": "linear"}}, {}, "'rope_scaling' is not served"),
        ({"global_rope_theta": 0}, {}, "the rotation's base of full_attention is 0"),
    ],
)
def test_configs_that_are_refused(tmp_path: Path, encoder: dict[str, Any], config: dict[str, Any], reason: str) -> None:
    folder = tiny_laya_directory(tmp_path / "tiny", config={"encoder": "x"})
    for path, base, changes in (("encoder/config.json", ENCODER, encoder), ("rl_agent_config.json", CONFIG, config)):
        values = {key: value for key, value in {**base, **changes}.items() if value is not None}
        (folder / path).write_text(json.dumps(values))
    assert reason in refused(folder)


def test_tensors_that_are_missing_or_too_many(tmp_path: Path) -> None:
    folder = tiny_laya_directory(tmp_path / "tiny")
    tensors: dict[str, Any] = dict(random_tensors(ENCODER, CONFIG, 1))

    def write(**changes: Any) -> None:
        changed = {**tensors, **{name.replace("__", "."): value for name, value in changes.items()}}
        kept = {name: value for name, value in changed.items() if value is not None}
        (folder / "model.safetensors").write_bytes(safetensors_bytes(kept))

    write(type_emb__weight=None, encoder__layers__0__attn_norm__weight=np.ones(128, np.float32))
    problem = refused(folder)
    assert "tensors are missing, 1: type_emb.weight; " in problem
    assert "tensors belong to no part of this model, 1: encoder.layers.0.attn_norm.weight" in problem
    write(scorer__3__bias=np.zeros(2, np.float32))
    assert "tensor 'scorer.3.bias' has shape [2], [1] is expected" in refused(folder)
    write(scorer__3__bias=np.zeros(1, np.int32))
    assert "tensor 'scorer.3.bias' is of type I32; F32, F16 and BF16 are served" in refused(folder)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mask_token": None}, "'mask_token' is None; the text of a token is expected"),
        ({"cls_token": "<bos>"}, "names the token '<bos>', which tokenizer.json does not have"),
    ],
)
def test_special_tokens_that_are_not_there(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    folder = tiny_laya_directory(tmp_path / "tiny")
    path = folder / "tokenizer" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    assert reason in refused(folder)


def test_special_tokens_may_be_objects(tmp_path: Path) -> None:
    folder = tiny_laya_directory(tmp_path / "tiny") / "tokenizer"
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "mask_token": {"content": "[MASK]", "lstrip": True}}))
    tokens = Tokens(folder, 261)
    assert (tokens.first, tokens.separator, tokens.mask) == (1, 2, 4)
    assert tokens.encode(["a[MASK]b"]) == tokens.encode(["a b"])


def test_ids_outside_the_table(tmp_path: Path) -> None:
    folder = tiny_laya_directory(tmp_path / "tiny", encoder={"vocab_size": 200})
    assert "has ids up to 260; the model's table has 200 rows" in refused(folder)


def test_a_settings_file_names_a_directory_of_the_model_folder(tmp_path: Path) -> None:
    tiny_laya_directory(tmp_path / "small")
    file = tmp_path / "elsewhere" / "golem.toml"
    file.parent.mkdir()
    flags = {"model-folder": [str(tmp_path)]}
    file.write_text('laya-model = ["small"]\n')
    assert [model.name for model in golem_models(resolve([*CORE, *golem_settings()], flags, {}, file))] == ["small"]
    file.write_text('laya-model = ["smal"]\n')
    with pytest.raises(ModelFileError, match="^smal: neither here nor in the model folder"):
        golem_models(resolve([*CORE, *golem_settings()], flags, {}, file))
