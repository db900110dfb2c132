"""The hooks of the laya plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from golem_host.api import Identified, Model, ModelFileError, Operation, Route, Setting, Settings, hookimpl
from golem_host.config import device, named_path

GOLEM_HOST_API = 1


@hookimpl
def golem_settings() -> Sequence[Setting]:
    return [
        Setting(
            "laya-model",
            named_path,
            (),
            "Decision model to serve, under its own name or NAME: a laya checkpoint's directory, by path or by name "
            "in the model folder.",
            env=("GOLEM_LAYA",),
            repeatable=True,
            metavar="[NAME=]PATH",
        ),
        Setting("laya-device", device, None, "Device for decision models, if not that of --device.", metavar="DEVICE"),
    ]


@hookimpl
def golem_models(settings: Settings) -> Sequence[Model]:
    from golem_host_laya.model import LayaModel

    on = settings["laya-device"] or settings["device"]
    folder: Path = settings["model-folder"]
    return [
        LayaModel(given.find(folder, directories=True), name=given.name, device=on) for given in settings["laya-model"]
    ]


@hookimpl
def golem_routes() -> Sequence[Route]:
    from golem_host_laya.routes import ROUTES

    return ROUTES


@hookimpl
def golem_openapi() -> Mapping[str, Operation]:
    from golem_host_laya.openapi import OPERATIONS

    return OPERATIONS


@hookimpl
def golem_identify(path: Path, settings: Settings) -> Identified | None:
    """A directory with an `rl_agent_config.json`, served or refused with the reason."""
    from golem_host_laya.checkpoint import looks_like
    from golem_host_laya.model import LayaModel

    if not looks_like(path):
        return None
    try:
        model = LayaModel(path)
        model.check()
    except ModelFileError as error:
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return Identified("laya", "laya", problems=(error.message,), size_bytes=size)
    return Identified(
        plugin="laya",
        family=model.family,
        rows=(
            ("answers", "typed decisions"),
            ("parameters", model.parameter_size),
            ("quantization", model.quantization),
            ("longest sequence", f"{model.context_length} tokens"),
        ),
        memory=model.memory_bytes(settings),
        size_bytes=model.size_bytes,
        parameter_count=model.parameter_count,
        quantization=model.quantization,
        setting="laya-model",
    )
