"""Finding the three files in a ComfyUI directory by the names of their tensors; file names only break ties."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from golem_host.api import ModelFileError
from golem_host.weights import open_gguf, open_safetensors
from golem_host_krea2.files import File

log = logging.getLogger("golem_host.krea2")

MAX_FILES = 10_000
"""Files looked at below a folder."""

_DIT_MARK = "txtfusion.projector.weight"
_DIT_PREFIXES = ("", "model.diffusion_model.")
_ENCODER_MARK = "layers.0.post_attention_layernorm.weight"
_ENCODER_PREFIXES = ("model.language_model.", "model.", "language_model.model.", "")
_VAE_MARK = "decoder.middle.0.residual.0.gamma"
_VAE_PREFIXES = ("", "first_stage_model.", "vae.")


@dataclass(frozen=True)
class Role:
    """What a file is for: the folders ComfyUI keeps it in, how it is recognised, whose name wins among several."""

    name: str
    folders: tuple[str, ...]
    mark: str
    prefixes: tuple[str, ...]
    preferred: tuple[str, ...]


DIT = Role(
    "diffusion model", ("diffusion_models", "unet"), _DIT_MARK, _DIT_PREFIXES, ("krea2_turbo", "krea2", "fp8_scaled")
)
ENCODER = Role(
    "text encoder", ("text_encoders", "clip"), _ENCODER_MARK, _ENCODER_PREFIXES, ("qwen3vl", "qwen3", "fp8_scaled")
)
VAE = Role("VAE", ("vae",), _VAE_MARK, _VAE_PREFIXES, ("qwen_image",))
ROLES = (DIT, ENCODER, VAE)


@dataclass(frozen=True)
class Found:
    """Where the files are, and the directory they were found in; `comfy` is ComfyUI's own tree, if it is there."""

    root: Path
    dit: Path
    encoder: Path
    vae: Path
    comfy: Path | None


def looks_like(path: Path) -> bool:
    """Whether a directory is ComfyUI's, or its models folder."""
    return path.is_dir() and all(
        any((models / folder).is_dir() for folder in role.folders) for models in [_models(path)] for role in ROLES
    )


def find_files(path: Path) -> Found:
    """The three files below `path`, ComfyUI's root or its models folder.

    Raises `ModelFileError` naming the role that no file has, the folders searched, and what was wrong with files there.
    """
    if not path.is_dir():
        raise ModelFileError(path, "is no directory; give ComfyUI's root or its models folder")
    models = _models(path)
    dit, encoder, vae = (_find(path, models, role) for role in ROLES)
    return Found(
        path, dit, encoder, vae, next((root for root in (path, path.parent) if (root / "comfy").is_dir()), None)
    )


def open_role(path: Path, role: Role) -> File:
    """The file, opened under the prefix its tensors have. Raises `ModelFileError` for one that is not the role's."""
    prefix = _prefix(_tensor_names(path), role)
    if prefix is None:
        raise ModelFileError(path, f"is no {role.name} of Krea 2: it has no tensor '{role.mark}'")
    return File(path, prefix)


def _models(path: Path) -> Path:
    return path / "models" if (path / "models").is_dir() else path


def _find(root: Path, models: Path, role: Role) -> Path:
    folders = [models / folder for folder in role.folders]
    candidates, problems = [], []
    for path in _files(folders):
        try:
            if _prefix(_tensor_names(path), role) is not None:
                candidates.append(path)
        except ModelFileError as error:
            problems.append(f"{path.name}: {error.message}")
    if not candidates:
        searched = ", ".join(str(folder) for folder in folders)
        trouble = f" (not readable: {'; '.join(problems)})" if problems else ""
        raise ModelFileError(root, f"has no {role.name} of Krea 2; searched {searched}{trouble}")
    chosen = min(candidates, key=lambda path: _rank(path, role.preferred))
    others = "" if len(candidates) == 1 else f" (of {len(candidates)})"
    log.info("%s: %s%s", role.name, chosen, others)
    return chosen


def _rank(path: Path, preferred: Sequence[str]) -> tuple[list[bool], str]:
    name = path.name.lower()
    return [word not in name for word in preferred], str(path)


def _files(folders: Sequence[Path]) -> Iterator[Path]:
    """Model files below the folders, symbolic links followed, none twice."""
    seen: set[Path] = set()
    count = 0
    for folder in folders:
        for place, inner, names in os.walk(folder, followlinks=True):
            real = Path(place).resolve()
            if real in seen:  # a link back to a folder above
                inner.clear()
                continue
            seen.add(real)
            inner.sort()
            for name in sorted(names):
                count += 1
                if count > MAX_FILES:
                    raise ModelFileError(folder, f"holds more than {MAX_FILES} files")
                if name.lower().endswith((".safetensors", ".gguf")) and (Path(place) / name).is_file():
                    yield Path(place) / name


def _tensor_names(path: Path) -> list[str]:
    if path.suffix.lower() == ".gguf":
        with open_gguf(path) as gguf:
            return list(gguf.tensors)
    with open_safetensors(path) as file:
        return [*file.tensors, *file.raw]


def _prefix(names: Sequence[str], role: Role) -> str | None:
    there = set(names)
    return next((prefix for prefix in role.prefixes if prefix + role.mark in there), None)
