"""The hooks of the krea2 plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from golem_host.api import Identified, Model, ModelFileError, Operation, Route, Setting, Settings, hookimpl
from golem_host.config import NamedPath, boolean, device, named_path
from golem_host.config import path as path_setting

GOLEM_HOST_API = 1


@hookimpl
def golem_settings() -> Sequence[Setting]:
    return [
        Setting(
            "krea2-model",
            named_path,
            (),
            "Krea 2 to draw with, under its own name or NAME: ComfyUI's root directory, or its models folder.",
            env=("GOLEM_KREA2",),
            repeatable=True,
            metavar="[NAME=]PATH",
        ),
        Setting("krea2-device", device, None, "Device for pictures, if not that of --device.", metavar="DEVICE"),
        Setting(
            "krea2-keep",
            boolean,
            False,
            "Keep the diffusion model in memory from its first picture on, instead of reading it for every step.",
            is_flag=True,
        ),
        Setting(
            "krea2-tokenizer",
            path_setting,
            None,
            "Qwen's tokenizer where neither ComfyUI's tree nor the text encoder's folder has it: a folder, a "
            "tokenizer.json or a GGUF file.",
            metavar="PATH",
        ),
    ]


@hookimpl
def golem_models(settings: Settings) -> Sequence[Model]:
    from golem_host_krea2.model import Krea2Model

    folder: Path = settings["model-folder"]
    return [
        Krea2Model(
            given.find(folder, directories=True),
            name=given.name,
            device=settings["krea2-device"] or settings["device"],
            tokenizer=settings["krea2-tokenizer"],
            ggufs=_served_ggufs(settings),
        )
        for given in settings["krea2-model"]
    ]


@hookimpl
def golem_routes() -> Sequence[Route]:
    from golem_host_krea2.routes import ROUTES

    return ROUTES


@hookimpl
def golem_openapi() -> Mapping[str, Operation]:
    from golem_host_krea2.openapi import OPERATIONS

    return OPERATIONS


@hookimpl
def golem_identify(path: Path, settings: Settings) -> Identified | None:
    """A ComfyUI directory, served or refused with the reason."""
    from golem_host_krea2.folders import looks_like
    from golem_host_krea2.model import Krea2Model

    if not looks_like(path):
        return None
    try:
        model = Krea2Model(path, tokenizer=settings["krea2-tokenizer"], ggufs=_served_ggufs(settings))
        model.check()
    except ModelFileError as error:
        return Identified("krea2", "krea2", problems=(str(error),))
    return Identified(
        plugin="krea2",
        family=model.family,
        rows=(
            ("answers", "pictures"),
            ("diffusion model", model.path.name),
            ("parameters", model.parameter_size),
            ("quantization", model.quantization),
        ),
        memory=model.memory_bytes(settings),
        size_bytes=model.size_bytes,
        parameter_count=model.parameter_count,
        quantization=model.quantization,
        setting="krea2-model",
    )


def _served_ggufs(settings: Settings) -> list[Path]:
    """GGUF files that other settings name as models: Qwen's tokenizer may be in one."""
    folder: Path = settings["model-folder"]
    given = [each for value in settings.values() if isinstance(value, tuple) for each in value]
    found = [each.find(folder, directories=True) for each in given if isinstance(each, NamedPath)]
    return [path for path in found if path.suffix.lower() == ".gguf"]
