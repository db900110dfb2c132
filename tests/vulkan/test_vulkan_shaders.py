"""What is shipped as SPIR-V is what the GLSL beside it says."""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from golem_host.devices.vulkan.shaders.build import FOLDER, compile_shader, compiler_version, digest, manifest, shaders

HINT = "run python -m golem_host.devices.vulkan.shaders.build"


def test_every_shader_was_built_from_its_sources() -> None:
    built = manifest()
    assert {path.stem for path in FOLDER.glob("*.spv")} == {shader.name for shader in shaders()} == built.keys(), HINT
    stale = [shader.name for shader in shaders() if built[shader.name]["sources"] != digest(shader)]
    assert not stale, HINT
    for name, made in built.items():
        assert hashlib.sha256((FOLDER / f"{name}.spv").read_bytes()).hexdigest() == made["spirv"], f"{name}: {HINT}"


def test_rebuilding_gives_the_same(tmp_path: Path) -> None:
    """Byte for byte with the compiler they were built with; with another one they must still compile."""
    if shutil.which("glslangValidator") is None:
        pytest.skip("needs glslangValidator (glslang-tools)")
    version, built = compiler_version(), manifest()
    targets = [tmp_path / f"{shader.name}.spv" for shader in shaders()]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(compile_shader, shaders(), targets))
    for target in targets:
        if built[target.stem]["compiler"] == version:
            assert target.read_bytes() == (FOLDER / target.name).read_bytes(), f"{target.stem}: {HINT}"
