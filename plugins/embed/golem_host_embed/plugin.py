"""The hooks of the embed plugin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from golem_host.api import Identified, Model, ModelFileError, Route, Setting, Settings, hookimpl
from golem_host.config import device, named_path

GOLEM_HOST_API = 1


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
    return [EmbedModel(_found(given.path, folder), name=given.name, device=on) for given in settings["embed-model"]]


def _found(path: Path, folder: Path) -> Path:
    """The path itself, or what has that name in the model folder, with or without `.gguf`."""
    places = (path, folder / path, folder / f"{path}.gguf")
    return next((place for place in places if place.exists()), path)


@hookimpl
def golem_routes() -> Sequence[Route]:
    from golem_host_embed.routes import ROUTES

    return ROUTES


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


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size
