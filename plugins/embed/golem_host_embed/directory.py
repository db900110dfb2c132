"""Encoders in directories, as sentence-transformers and transformers save them: `config.json`, `model.safetensors`,
`tokenizer.json`, and beside them which modules make a vector of a text.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from golem_host.api import ModelFileError
from golem_host.weights.config_json import Config, read_config, read_json_file
from golem_host.weights.safetensors import Safetensors, open_safetensors
from golem_host.weights.tensor import Tensor
from golem_host_embed.checkpoint import MAX_LAYERS, MAX_POSITIONS, MAX_WIDTH, Checkpoint, Gelu, Hparams, Pooling
from golem_host_embed.hf_names import gguf_names
from golem_host_embed.hf_tokens import open_tokenizer

log = logging.getLogger("golem_host.embed")

_GELU = {"gelu": Gelu.ERF, "gelu_new": Gelu.TANH, "gelu_pytorch_tanh": Gelu.TANH}
_POOLING_FLAGS = {
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_lasttoken": Pooling.LAST,
}
_POOLING_WORDS = {"mean": Pooling.MEAN, "cls": Pooling.CLS, "lasttoken": Pooling.LAST}


@dataclass(frozen=True)
class _Modules:
    """What `modules.json` says: where the transformer's files lie and how its rows are pooled."""

    transformer: Path
    pooling: Pooling


def family(path: Path) -> str | None:
    """The model type of a directory with an encoder, served or not; None for other directories."""
    try:
        config = read_config(path / "config.json")
    except ModelFileError:
        return "unknown" if (path / "modules.json").is_file() else None
    kind = config.values.get("model_type")
    encoder = kind == "bert" or (path / "modules.json").is_file()
    return str(kind) if encoder else None


def open_directory(path: Path) -> Checkpoint:
    """Open a directory with a BERT encoder. Raises `ModelFileError` for one that cannot be served."""
    modules = _modules(path)
    folder = modules.transformer if modules else path
    config = read_config(folder / "config.json")
    config.require("model_type", "bert", None)
    config.require("position_embedding_type", "absolute", "absolute")
    config.require("is_decoder", False, False)
    classifier = _is_classifier(config)
    hparams = _hparams(config)
    context, lowercase = _limits(path, folder, hparams.positions)
    weights = _weights(folder)
    try:
        tensors = gguf_names(weights, classifier=classifier)
        table = tensors.get("token_embd.weight")
        if table is None:
            raise ModelFileError(weights.path, "tensor 'embeddings.word_embeddings.weight' is missing")
        _warn_of_prompts(path)
        return Checkpoint(
            path=path,
            architecture="bert",
            hparams=hparams,
            tensors=tensors,
            # A cross-encoder's head reads the first row; sentence-transformers averages where nothing is said.
            pooling=Pooling.CLS if classifier else modules.pooling if modules else Pooling.MEAN,
            classifier=classifier,
            context_length=context,
            quantization=table.type_name,
            size_bytes=weights.size_bytes,
            modified=weights.path.stat().st_mtime,
            tokens=lambda: open_tokenizer(folder / "tokenizer.json", table.shape[0], lowercase=lowercase),
            close=weights.close,
            metadata=_metadata(hparams, context, tensors),
        )
    except BaseException:
        weights.close()
        raise


def _modules(path: Path) -> _Modules | None:
    """The pipeline of a sentence-transformers directory, None where there is none."""
    file = path / "modules.json"
    if not file.is_file():
        return None
    transformer, pooling = None, None
    for module in read_json_file(file, list):
        if not isinstance(module, dict):
            raise ModelFileError(file, "holds something else than modules")
        kind = str(module.get("type")).rpartition(".")[2]
        if kind == "Transformer":
            transformer = _inside(file, module)
        elif kind == "Pooling":
            pooling = _pooling(read_config(_inside(file, module) / "config.json"))
        elif kind != "Normalize":
            raise ModelFileError(file, f"module {module.get('type')!r} is not served; served are Transformer, Pooling "
                                       "and Normalize")  # fmt: skip
    if transformer is None:
        raise ModelFileError(file, "names no Transformer module")
    return _Modules(transformer, pooling or Pooling.MEAN)


def _inside(file: Path, module: Mapping[str, Any]) -> Path:
    """A module's folder, which must lie in the directory."""
    place = PurePosixPath(str(module.get("path", "")))
    if place.is_absolute() or ".." in place.parts:
        raise ModelFileError(file, f"module path {str(place)!r} lies outside the directory")
    if not str(place).isprintable():  # no name of a file, or none that can be shown
        raise ModelFileError(file, f"module path {str(place)!r} is no path")
    return file.parent / place


def _pooling(config: Config) -> Pooling:
    word = config.values.get("pooling_mode")
    if word is not None:
        found = [_POOLING_WORDS[word]] if isinstance(word, str) and word in _POOLING_WORDS else []
    else:
        on = [key for key, value in config.values.items() if key.startswith("pooling_mode_") and value]
        found = [_POOLING_FLAGS[key] for key in on if key in _POOLING_FLAGS] if len(on) == 1 else []
    if not found:
        raise ModelFileError(config.path, "asks for a pooling that is not served; served are mean, cls and lasttoken")
    return found[0]


def _is_classifier(config: Config) -> bool:
    """Whether the model scores pairs of texts."""
    names = config.values.get("architectures") or ["BertModel"]
    name = names[0] if isinstance(names, list) else names
    if name in ("BertModel", "BertForMaskedLM", "BertForPreTraining"):
        return False
    if name != "BertForSequenceClassification":
        raise ModelFileError(
            config.path, f"'architectures' is {names!r}; served are BertModel and BertForSequenceClassification"
        )
    labels = config.values.get("id2label")
    count = len(labels) if isinstance(labels, dict) else config.values.get("num_labels", 2)
    if count != 1:
        raise ModelFileError(config.path, f"is a classifier of {count!r} labels; a reranker has one")
    return True


def _hparams(config: Config) -> Hparams:
    activation = config.values.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in _GELU:
        raise ModelFileError(config.path, f"'hidden_act' is {activation!r}; served are {', '.join(_GELU)}")
    eps = config.values.get("layer_norm_eps", 1e-12)
    if not isinstance(eps, float) or not 0 < eps < 1:
        raise ModelFileError(config.path, f"'layer_norm_eps' is {eps!r}; a number from 0 to 1 is expected")
    hparams = Hparams(
        layers=config.positive("num_hidden_layers", MAX_LAYERS),
        width=config.positive("hidden_size", MAX_WIDTH),
        ff_width=config.positive("intermediate_size", MAX_WIDTH),
        heads=config.positive("num_attention_heads", 4096),
        positions=config.positive("max_position_embeddings", MAX_POSITIONS),
        norm_eps=eps,
        gelu=_GELU[activation],
    )
    if hparams.width % hparams.heads:
        raise ModelFileError(config.path, f"rows of {hparams.width} values do not divide into {hparams.heads} heads")
    return hparams


def _limits(path: Path, folder: Path, positions: int) -> tuple[int, bool]:
    """The longest text in tokens, and whether texts are lowercased before the tokenizer sees them."""
    limits, lowercase = [positions], False
    file = next((place / "sentence_bert_config.json" for place in (folder, path)
                 if (place / "sentence_bert_config.json").is_file()), None)  # fmt: skip
    if file is not None:
        config = read_config(file)
        if config.values.get("max_seq_length") is not None:
            limits.append(config.positive("max_seq_length", MAX_POSITIONS))
        lowercase = config.values.get("do_lower_case") is True
    elif (folder / "tokenizer_config.json").is_file():
        longest = read_config(folder / "tokenizer_config.json").values.get("model_max_length")
        if type(longest) is int and longest > 0:
            limits.append(longest)
    return min(limits), lowercase


def _weights(folder: Path) -> Safetensors:
    path = folder / "model.safetensors"
    if not path.exists():
        if (folder / "model.safetensors.index.json").exists():
            raise ModelFileError(path, "is split into several files, which is not served; save it as one")
        if (folder / "pytorch_model.bin").exists():
            raise ModelFileError(
                path, "is missing: pytorch_model.bin is not read, because opening such a file may run code in it; "
                "save the model as safetensors"
            )  # fmt: skip
    return open_safetensors(path)


def _warn_of_prompts(path: Path) -> None:
    file = path / "config_sentence_transformers.json"
    if file.is_file() and (name := read_config(file).values.get("default_prompt_name")):
        log.warning(
            "%s: sentence-transformers would put its prompt %r before every text; texts are embedded as they come",
            path.name,
            name,
        )


def _metadata(hparams: Hparams, context: int, tensors: Mapping[str, Tensor]) -> dict[str, object]:
    table = tensors["token_embd.weight"]
    return {
        "general.architecture": "bert",
        "bert.block_count": hparams.layers,
        "bert.context_length": context,
        "bert.embedding_length": hparams.width,
        "bert.feed_forward_length": hparams.ff_width,
        "bert.attention.head_count": hparams.heads,
        "bert.attention.layer_norm_epsilon": hparams.norm_eps,
        "bert.attention.causal": False,
        "bert.vocab_size": table.shape[0],
    }
