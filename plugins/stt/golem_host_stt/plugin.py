"""The hooks of the speech-to-text plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from golem_host.api import Identified, Model, ModelFileError, Operation, Route, Setting, Settings, Workload, hookimpl
from golem_host.config import choice, device, integer, named_path

if TYPE_CHECKING:
    from golem_host_stt.runtime import SttRuntime

GOLEM_HOST_API = 1


@hookimpl
def golem_settings() -> Sequence[Setting]:
    return [
        Setting(
            "stt-model",
            named_path,
            (),
            "Speech-to-text model to serve, under its own name or NAME: a Kyutai STT checkpoint's directory, by path "
            "or by its name in the model folder.",
            env=("GOLEM_STT",),
            repeatable=True,
            metavar="[NAME=]PATH",
        ),
        Setting("stt-device", device, "cpu", "Device for speech to text; the processor only.", metavar="DEVICE"),
        Setting(
            "stt-streams",
            integer(1, 64),
            8,
            "Recordings and live streams that a speech-to-text model hears at once.",
            metavar="N",
        ),
        Setting(
            "stt-quantize",
            choice("none", "q8_0"),
            "none",
            "Quantize a speech-to-text model's matrices while it is loaded: q8_0 is half as large and faster.",
            metavar="TYPE",
        ),
    ]


@hookimpl
def golem_models(settings: Settings) -> Sequence[Model]:
    from golem_host_stt.model import SttModel

    folder: Path = settings["model-folder"]
    return [
        SttModel(given.find(folder, directories=True), name=given.name, device=settings["stt-device"])
        for given in settings["stt-model"]
    ]


@hookimpl
def golem_routes() -> Sequence[Route]:
    from golem_host_stt.routes import ROUTES

    return ROUTES


@hookimpl
def golem_bench(runtime: SttRuntime) -> Sequence[Workload]:
    from golem_host_stt.workloads import workloads

    return workloads(runtime)


@hookimpl
def golem_openapi() -> Mapping[str, Operation]:
    from golem_host_stt.openapi import OPERATIONS

    return OPERATIONS


@hookimpl
def golem_identify(path: Path, settings: Settings) -> Identified | None:
    """A directory whose `config.json` says `"model_type": "stt"`, served or refused with the reason."""
    from golem_host_stt.checkpoint import looks_like
    from golem_host_stt.model import SttModel

    if not looks_like(path):
        return None
    try:
        model = SttModel(path)
        model.check()
    except ModelFileError as error:
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return Identified("stt", "kyutai-stt", problems=(error.message,), size_bytes=size)
    return Identified(
        plugin="stt",
        family=model.family,
        rows=(
            ("answers", "speech to text"),
            ("parameters", model.parameter_size),
            ("quantization", model.quantization),
            ("languages", ", ".join(model.languages) or "not told"),
            ("delay", f"{model.timing.delay:g} s"),
        ),
        memory=model.memory_bytes(settings),
        size_bytes=model.size_bytes,
        parameter_count=model.parameter_count,
        quantization=model.quantization,
        setting="stt-model",
    )
