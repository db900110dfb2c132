"""Encoders in files and directories: the same model reads the same, and what is not served is refused by name."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.api import ModelFileError
from golem_host.testing.safetensors import safetensors_bytes
from golem_host.testing.tiny import tiny_gguf
from golem_host.testing.tiny_bert import tiny_bert_directory, tiny_bert_gguf, word_pieces
from golem_host.testing.tiny_nomic_bert import tiny_nomic_gguf
from golem_host.weights.safetensors import open_safetensors
from golem_host_embed.checkpoint import Gelu, Pooling, looks_like, open_checkpoint
from golem_host_embed.passes import require_tensors


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tiny_bert_directory(tmp_path / "bert")


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


@pytest.mark.parametrize("classifier", [False, True])
def test_directory_and_gguf_are_one_model(tmp_path: Path, classifier: bool) -> None:
    folder = open_checkpoint(tiny_bert_directory(tmp_path / "bert", classifier=classifier))
    file = open_checkpoint(tiny_bert_gguf(tmp_path / "bert.gguf", pooling=4 if classifier else 1))
    assert folder.tensors.keys() == file.tensors.keys()
    for name, tensor in folder.tensors.items():
        assert tensor.shape == file.tensors[name].shape
        assert (tensor.float32() == file.tensors[name].float32()).all()
    assert (folder.hparams.gelu, file.hparams.gelu) == (Gelu.ERF, Gelu.TANH)
    for attribute in ("layers", "width", "ff_width", "heads", "positions", "rope_base", "experts"):
        assert getattr(folder.hparams, attribute) == getattr(file.hparams, attribute)
    assert folder.hparams.norm_eps == pytest.approx(file.hparams.norm_eps)
    for attribute in ("architecture", "pooling", "classifier", "context_length", "quantization"):
        assert getattr(folder, attribute) == getattr(file, attribute)
    ours, theirs = folder.tokens(), file.tokens()
    assert (ours.frame, ours.size) == (theirs.frame, theirs.size)
    texts = ["Hello, world!", "", "unable engines [SEP] x", "\u00c9\u4f60 9"]
    assert list(ours.texts(texts, 128)) == list(theirs.texts(texts, 128))
    assert list(ours.pairs("the king", texts, 128)) == list(theirs.pairs("the king", texts, 128))
    for checkpoint in (folder, file):
        checkpoint.close()


def test_nomic(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_nomic_gguf(tmp_path / "n.gguf", context=64))
    assert checkpoint.architecture == "nomic-bert-moe"
    hparams = checkpoint.hparams
    assert (hparams.rope_base, hparams.experts, hparams.experts_used, hparams.positions) == (10000.0, 8, 2, 0)
    assert (checkpoint.pooling, checkpoint.context_length) == (Pooling.MEAN, 64)
    tokens = checkpoint.tokens()
    assert next(tokens.texts(["search\u00e9"], 64)).ids[:2] == [0, next(tokens.texts(["search"], 64)).ids[1]]
    assert tokens.frame.second == 0


@pytest.mark.parametrize(("number", "pooling"), [(1, Pooling.MEAN), (2, Pooling.CLS), (3, Pooling.LAST)])
def test_gguf_pooling(tmp_path: Path, number: int, pooling: Pooling) -> None:
    assert open_checkpoint(tiny_bert_gguf(tmp_path / "b.gguf", pooling=number)).pooling is pooling


def test_gguf_without_pooling_is_averaged_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert open_checkpoint(tiny_bert_gguf(tmp_path / "b.gguf", pooling=None)).pooling is Pooling.MEAN
    assert "b.gguf does not say how its rows are pooled" in caplog.text


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"bert.pooling_type": 0}, r"'bert\.pooling_type' is 0; served are 1 \(mean\)"),
        ({"bert.attention.causal": True}, r"'bert\.attention\.causal' is true"),
        ({"bert.block_count": 0}, r"'bert\.block_count' is 0; a number from 1 to 1024"),
        ({"bert.embedding_length": 1 << 21}, "'bert.embedding_length' is 2097152"),
        ({"bert.attention.head_count": 5}, "rows of 64 values do not divide into 5 heads"),
        ({"bert.attention.layer_norm_epsilon": 2.0}, "layer_norm_epsilon' is 2.0"),
        ({"bert.context_length": None}, "'bert.context_length' is missing"),
    ],
)
def test_gguf_refusals(tmp_path: Path, metadata: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelFileError, match=reason):
        open_checkpoint(tiny_bert_gguf(tmp_path / "b.gguf", metadata=metadata))


def test_gguf_of_another_family(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "chat.gguf")
    assert looks_like(path) is None
    with pytest.raises(ModelFileError, match="models of family 'llama' are not served; encoders served: bert"):
        open_checkpoint(path)
    encoder = tiny_gguf(tmp_path / "other.gguf", metadata={"llama.attention.causal": False})
    assert looks_like(encoder) == "llama"


def test_gguf_with_more_tokens_than_rows(tmp_path: Path) -> None:
    tokens = [*word_pieces(), "extra"]
    path = tiny_bert_gguf(
        tmp_path / "b.gguf",
        metadata={"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [1] * len(tokens)},
    )
    checkpoint = open_checkpoint(path)
    with pytest.raises(ModelFileError, match=f"the tokenizer has {len(tokens)} tokens, 'token_embd.weight' "):
        checkpoint.tokens()


def test_limits_of_a_directory(tmp_path: Path) -> None:
    assert open_checkpoint(tiny_bert_directory(tmp_path / "a", context=64)).context_length == 64
    shorter = tiny_bert_directory(tmp_path / "b", context=64, max_seq_length=32)
    assert open_checkpoint(shorter).context_length == 32
    (shorter / "sentence_bert_config.json").unlink()
    edit(shorter / "tokenizer_config.json", lambda config: {**config, "model_max_length": 16})
    assert open_checkpoint(shorter).context_length == 16


def test_texts_too_short_to_be_of_use(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="texts of 2 tokens are too short"):
        open_checkpoint(tiny_bert_directory(tmp_path / "a", max_seq_length=2))
    with pytest.raises(ModelFileError, match="texts of 2 tokens are too short"):
        open_checkpoint(tiny_bert_gguf(tmp_path / "b.gguf", metadata={"bert.context_length": 2}))


def test_lowercasing_before_the_tokenizer(directory: Path) -> None:
    edit(directory / "tokenizer.json", lambda file: {**file, "normalizer": None})
    assert 1 in next(open_checkpoint(directory).tokens().texts(["King"], 99)).ids
    edit(directory / "sentence_bert_config.json", lambda config: {**config, "do_lower_case": True})
    assert 1 not in next(open_checkpoint(directory).tokens().texts(["King"], 99)).ids


@pytest.mark.parametrize(("pooling", "expected"), [("cls", Pooling.CLS), ("lasttoken", Pooling.LAST)])
def test_pooling_of_a_directory(tmp_path: Path, pooling: str, expected: Pooling) -> None:
    folder = tiny_bert_directory(tmp_path / "bert", pooling=pooling)
    assert open_checkpoint(folder).pooling is expected
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": pooling, "embedding_dimension": 64}))
    assert open_checkpoint(folder).pooling is expected


def test_a_directory_without_modules_is_averaged(directory: Path) -> None:
    (directory / "modules.json").unlink()
    assert open_checkpoint(directory).pooling is Pooling.MEAN


def test_old_layout_and_names(tmp_path: Path) -> None:
    """The transformer in a folder of its own, tensors as TensorFlow named them, buffers and foreign heads beside."""
    folder = tiny_bert_directory(tmp_path / "bert")
    inner = folder / "0_Transformer"
    inner.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        (folder / name).rename(inner / name)
    edit(folder / "modules.json", lambda modules: [{**modules[0], "path": "0_Transformer"}, *modules[1:]])
    new = open_checkpoint(folder)
    old_names = {
        "LayerNorm.weight": "LayerNorm.gamma",
        "LayerNorm.bias": "LayerNorm.beta",
    }
    from golem_host.weights import open_safetensors

    with open_safetensors(inner / "model.safetensors") as file:
        tensors = {}
        for name, tensor in file.tensors.items():
            for new_name, old_name in old_names.items():
                name = name.replace(new_name, old_name)
            tensors[f"bert.{name}"] = tensor.float32()
    tensors["bert.embeddings.position_ids"] = np.arange(8)[None]
    tensors["bert.pooler.dense.weight"] = np.zeros((64, 64), np.float32)
    tensors["cls.predictions.bias"] = np.zeros(4, np.float32)
    other = tmp_path / "other"
    folder.rename(other)
    (other / "0_Transformer" / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    old = open_checkpoint(other)
    assert old.tensors.keys() == new.tensors.keys()
    assert old.tokens().size == len(word_pieces())


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "mpnet"}, "'model_type' is 'mpnet'; only 'bert' is served"),
        ({"model_type": ["bert"]}, "'model_type' is"),
        ({"position_embedding_type": "relative_key"}, "'position_embedding_type' is 'relative_key'"),
        ({"is_decoder": True}, "'is_decoder' is True"),
        ({"hidden_act": "silu"}, "'hidden_act' is 'silu'; served are gelu"),
        ({"hidden_act": []}, "'hidden_act' is"),
        ({"hidden_size": -1}, "'hidden_size' is -1"),
        ({"hidden_size": True}, "'hidden_size' is True"),
        ({"num_attention_heads": 7}, "rows of 64 values do not divide into 7 heads"),
        ({"num_hidden_layers": 10**9}, "'num_hidden_layers' is 1000000000"),
        ({"layer_norm_eps": "x"}, "'layer_norm_eps' is 'x'"),
        ({"architectures": ["BertForTokenClassification"]}, "'architectures' is"),
        ({"architectures": ["BertForSequenceClassification"]}, "classifier of 2 labels; a reranker has one"),
    ],
)  # fmt: skip
def test_configurations_that_are_refused(tmp_path: Path, config: dict[str, Any], reason: str) -> None:
    folder = tiny_bert_directory(tmp_path / "bert", config=config)
    with pytest.raises(ModelFileError, match=reason) as caught:
        open_checkpoint(folder)
    assert str(folder) in str(caught.value)


def dense(modules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*modules, {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}]


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("modules.json", dense, "module 'sentence_transformers.models.Dense' is not served"),
        ("modules.json", lambda modules: modules[1:], "names no Transformer module"),
        ("modules.json", lambda modules: {}, "not an array of JSON"),
        ("modules.json", lambda modules: [3], "something else than modules"),
        ("modules.json", lambda modules: [{**modules[0], "path": "../other"}], "lies outside the directory"),
        ("modules.json", lambda modules: [{**modules[0], "path": "/etc"}], "lies outside the directory"),
        ("config.json", lambda config: [], "not an object of JSON"),
        ("1_Pooling/config.json", lambda config: {"pooling_mode_max_tokens": True}, "pooling that is not served"),
        ("1_Pooling/config.json", lambda config: {"pooling_mode": "max"}, "pooling that is not served"),
        ("1_Pooling/config.json", lambda config: {**config, "pooling_mode_max_tokens": True}, "pooling that is not"),
        ("sentence_bert_config.json", lambda config: {"max_seq_length": 0}, "'max_seq_length' is 0"),
    ],
)  # fmt: skip
def test_directories_that_are_refused(directory: Path, name: str, change: Callable[[Any], Any], reason: str) -> None:
    edit(directory / name, change)
    with pytest.raises(ModelFileError, match=reason):
        open_checkpoint(directory)


def test_files_that_are_missing_or_broken(directory: Path) -> None:
    weights = directory / "model.safetensors"
    kept = weights.read_bytes()
    weights.unlink()
    with pytest.raises(ModelFileError, match="model.safetensors: cannot be opened"):
        open_checkpoint(directory)
    (directory / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ModelFileError, match="pytorch_model.bin is not read"):
        open_checkpoint(directory)
    (directory / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ModelFileError, match="split into several files"):
        open_checkpoint(directory)
    weights.write_bytes(kept)
    (directory / "config.json").write_text("{")
    with pytest.raises(ModelFileError, match=r"config\.json: is not JSON"):
        open_checkpoint(directory)
    (directory / "config.json").write_text("[" * 100_000)
    with pytest.raises(ModelFileError, match=r"config\.json: is not JSON"):
        open_checkpoint(directory)


def replace_tensors(folder: Path, tensors: dict[str, Any]) -> None:
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))


def test_tensors_that_are_refused(directory: Path) -> None:
    table = np.zeros((len(word_pieces()), 64), np.float32)
    replace_tensors(directory, {"embeddings.LayerNorm.bias": table[0]})
    with pytest.raises(ModelFileError, match=r"tensor 'embeddings\.word_embeddings\.weight' is missing"):
        open_checkpoint(directory)
    replace_tensors(directory, {"embeddings.word_embeddings.weight": table, "encoder.layer.0.crossattention.x": table})
    with pytest.raises(ModelFileError, match=r"tensor 'encoder\.layer\.0\.crossattention\.x' belongs to a variant"):
        open_checkpoint(directory)
    twice = {f"{prefix}embeddings.word_embeddings.weight": table for prefix in ("", "bert.")}
    replace_tensors(directory, twice)
    with pytest.raises(ModelFileError, match="is there under another name as well"):
        open_checkpoint(directory)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda file: {}, "is no tokenizer"),
        (lambda file: {**file, "model": {"type": "Nonsense"}}, "is no tokenizer"),
        (lambda file: {**file, "model": {**file["model"], "vocab": {"a": 0, "[UNK]": 9999}}}, "has ids up to 9999"),
        (lambda file: {**file, "post_processor": {**file["post_processor"], "pair": [
            {"Sequence": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}},
         "puts special tokens where they are not understood"),
    ],
)  # fmt: skip
def test_tokenizers_that_are_refused(directory: Path, change: Callable[[Any], Any], reason: str) -> None:
    edit(directory / "tokenizer.json", change)
    with pytest.raises(ModelFileError, match=reason):
        open_checkpoint(directory).tokens()


def special(name: str, ids: list[int]) -> Callable[[Any], Any]:
    def change(file: Any) -> Any:
        file["post_processor"]["special_tokens"][name] |= {"ids": ids, "tokens": [name] * len(ids)}
        return file

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (special("[CLS]", [99999]), "puts token 99999 beside a text; it has 108"),
        (special("[SEP]", [108]), "puts token 108 beside a text; it has 108"),
        (special("[CLS]", [2] * 300), "puts 30[12] tokens beside a text, of which the model takes 128"),
    ],
)
@pytest.mark.parametrize("classifier", [False, True])
def test_tokenizers_whose_frame_does_not_fit(
    tmp_path: Path, classifier: bool, change: Callable[[Any], Any], reason: str
) -> None:
    folder = tiny_bert_directory(tmp_path / "bert", classifier=classifier)
    edit(folder / "tokenizer.json", change)
    with pytest.raises(ModelFileError, match=reason):
        open_checkpoint(folder).tokens()


@pytest.mark.parametrize("segments", [1, 2])
def test_a_second_text_needs_its_segment(tmp_path: Path, segments: int) -> None:
    def of_pair(file: Any) -> Any:
        for part in file["post_processor"]["pair"]:
            for each in part.values():
                each["type_id"] *= segments
        return file

    folder = tiny_bert_directory(tmp_path / "rank", classifier=True)
    edit(folder / "tokenizer.json", of_pair)
    if segments == 1:
        with_one = safetensors_of(folder)
        with_one["bert.embeddings.token_type_embeddings.weight"] = np.zeros((1, 64), np.float32)
        replace_tensors(folder, with_one)
    with pytest.raises(ModelFileError, match=f"gives the second text segment {segments}; the model has {segments}"):
        open_checkpoint(folder).tokens()


def safetensors_of(folder: Path) -> dict[str, Any]:
    with open_safetensors(folder / "model.safetensors") as file:
        return {name: tensor.float32().copy() for name, tensor in file.tensors.items()}


def test_tables_without_rows(directory: Path) -> None:
    tensors = safetensors_of(directory)
    tensors["embeddings.token_type_embeddings.weight"] = np.zeros((0, 64), np.float32)
    replace_tensors(directory, tensors)
    checkpoint = open_checkpoint(directory)
    with pytest.raises(ModelFileError, match=r"tensor 'token_types\.weight' has shape \[0, 64\]; rows of 64"):
        require_tensors(checkpoint)


@pytest.mark.parametrize("place", ["a\0b", "\ud800", "../x", "/x"])
@pytest.mark.parametrize("module", [0, 1])
def test_modules_in_places_that_are_none(directory: Path, module: int, place: str) -> None:
    def move(modules: Any) -> Any:
        modules[module]["path"] = place
        return modules

    edit(directory / "modules.json", move)
    with pytest.raises(ModelFileError, match="is no path|lies outside"):
        open_checkpoint(directory)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are files on POSIX systems only")
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "1_Pooling/config.json", "model.gguf"])
def test_pipes_are_not_waited_for(directory: Path, name: str) -> None:
    (directory / name).unlink(missing_ok=True)
    os.mkfifo(directory / name)
    opened: list[BaseException] = []

    def attempt() -> None:
        try:
            open_checkpoint(directory / name if name.endswith(".gguf") else directory)
        except ModelFileError as error:
            opened.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(20)
    assert [error.message for error in opened if isinstance(error, ModelFileError)] == ["is not a regular file"]


def test_a_tokenizer_that_is_missing(directory: Path) -> None:
    (directory / "tokenizer.json").unlink()
    with pytest.raises(ModelFileError, match=r"tokenizer\.json: is missing"):
        open_checkpoint(directory).tokens()


def test_a_default_prompt_is_told(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    (directory / "config_sentence_transformers.json").write_text(json.dumps({"default_prompt_name": "query"}))
    open_checkpoint(directory)
    assert "sentence-transformers would put its prompt 'query' before every text" in caplog.text


def test_what_looks_like_an_encoder(directory: Path, tmp_path: Path) -> None:
    assert looks_like(directory) == "bert"
    edit(directory / "config.json", lambda config: {**config, "model_type": "mpnet"})
    assert looks_like(directory) == "mpnet"
    (directory / "modules.json").unlink()
    assert looks_like(directory) is None
    assert looks_like(tmp_path) is None
    assert looks_like(tmp_path / "missing.gguf") is None
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    assert looks_like(tmp_path / "x.gguf") is None


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 300), st.floats(allow_nan=False), st.text(max_size=5),
    st.lists(st.integers(0, 3), max_size=2), st.dictionaries(st.text(max_size=2), st.integers(0, 2), max_size=2),
)  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert_directory(tmp_path_factory.mktemp("shared") / "bert")


@given(
    name=st.sampled_from(["config.json", "sentence_bert_config.json", "1_Pooling/config.json", "modules.json"]),
    key=st.sampled_from(
        ["model_type", "architectures", "id2label", "num_labels", "hidden_size", "hidden_act", "layer_norm_eps",
         "max_position_embeddings", "max_seq_length", "do_lower_case", "pooling_mode", "pooling_mode_cls_token", "path",
         "type"]
    ),
    value=VALUES,
)  # fmt: skip
def test_any_value_opens_or_is_refused(shared: Path, name: str, key: str, value: Any) -> None:
    file = shared / name
    kept = file.read_text()
    content = json.loads(kept)
    (content[0] if isinstance(content, list) else content)[key] = value
    try:
        file.write_text(json.dumps(content))
        checkpoint = open_checkpoint(shared)
        assert checkpoint.context_length > 0
        checkpoint.close()
    except ModelFileError:
        pass
    finally:
        file.write_text(kept)
