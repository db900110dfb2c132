"""Compiles the shaders of this folder to the SPIR-V that is shipped beside them, with glslangValidator.

    python -m golem_host.devices.vulkan.shaders.build [shader ...]

Without names: those that are missing or whose sources have changed. `manifest.json` says of each .spv what it was made
from (SHA-256 of the GLSL and its includes, with its definitions) and with which compiler.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
MANIFEST = FOLDER / "manifest.json"

_FLOATS = ("F32", "F16", "BF16")
_BLOCKS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS")
_BLOCKS += ("Q1_0", "Q2_0", "PQ2_0", "PTQ1_0")
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Shader:
    """One .spv: its name, its GLSL, and what is defined for it."""

    name: str
    source: Path
    definitions: tuple[str, ...] = ()


def shaders() -> list[Shader]:
    """Every shader: the .comp files here, some once for each weight type."""
    return [shader for source in sorted(FOLDER.glob("*.comp")) for shader in _variants(source)]


def _variants(source: Path) -> list[Shader]:
    name = source.stem
    if name == "quantize_blocks":
        return [Shader(f"{name}_{size}", source, (f"BLOCK={size}",)) for size in (32, 256)]
    if name == "table_rows":
        return [Shader(f"{name}_{kind.lower()}", source, (kind,)) for kind in _FLOATS + _BLOCKS]
    if name in ("product_few", "product_many"):
        plain = [Shader(f"{name}_{kind.lower()}", source, (kind,)) for kind in _FLOATS + _BLOCKS]
        return plain + [Shader(f"{name}_{kind.lower()}_dot", source, (kind, "DOT")) for kind in _BLOCKS]
    return [Shader(name, source)]


def digest(shader: Shader) -> str:
    """SHA-256 of what a shader is made from."""
    found = hashlib.sha256(" ".join(shader.definitions).encode())
    for path in _files(shader.source, []):
        found.update(path.read_bytes())
    return found.hexdigest()


def _files(path: Path, seen: list[Path]) -> list[Path]:
    if path not in seen:
        seen.append(path)
        for included in _INCLUDE.findall(path.read_text()):
            _files(FOLDER / included, seen)
    return seen


def compiler_version() -> str:
    """What glslangValidator says of itself. FileNotFoundError where it is not installed."""
    said = subprocess.run(["glslangValidator", "--version"], capture_output=True, text=True, check=True).stdout
    return said.splitlines()[0].removeprefix("Glslang Version: ")


def compile_shader(shader: Shader, target: Path) -> None:
    """Write the SPIR-V of a shader. Raises ValueError with what the compiler says."""
    defined = [f"-D{each}" for each in shader.definitions]
    command = ["glslangValidator", "-V", "-g0", "--target-env", "vulkan1.2", *defined, "-o", target, shader.source]
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{shader.name}: {done.stdout}{done.stderr}")


def manifest() -> dict[str, dict[str, str]]:
    """For each .spv that was built its `sources`, `spirv` (SHA-256) and `compiler`."""
    return json.loads(MANIFEST.read_text()) if MANIFEST.exists() else {}


def main(names: list[str]) -> None:
    known = shaders()
    built = manifest()
    version = compiler_version()
    for shader in known:
        target = FOLDER / f"{shader.name}.spv"
        fresh = target.exists() and built.get(shader.name, {}).get("sources") == digest(shader)
        if shader.source.stem in names or shader.name in names or not (names or fresh):
            compile_shader(shader, target)
            spirv = hashlib.sha256(target.read_bytes()).hexdigest()
            built[shader.name] = {"sources": digest(shader), "spirv": spirv, "compiler": version}
            print(target.name)
    wanted = {shader.name for shader in known}
    for path in FOLDER.glob("*.spv"):
        if path.stem not in wanted:
            path.unlink()
            print(f"{path.name}: no longer made")
    kept = {name: built[name] for name in sorted(wanted & built.keys())}
    MANIFEST.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
