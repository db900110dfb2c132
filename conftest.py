"""Fixtures for all tests: real model files and the oracles, where they are there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from golem_host.core_settings import cache_folder
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library

if TYPE_CHECKING:
    from oracle_client import Oracle

# A busy machine is slow; how long an example takes is never what a test is about.
settings.register_profile("golem", deadline=None)
settings.load_profile("golem")


def _real(variable: str, name: str) -> Path:
    """A real model file: where the variable says, else in the model folder; without it the test is skipped."""
    path = Path(os.environ.get(variable) or cache_folder() / name)
    if not path.is_file():
        pytest.skip(f"needs {name}: set {variable}, or run `python tests/fetch_test_models.py`")
    return path


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, Q4_1."""
    return _real("GOLEM_TEST_SMOLLM2", "SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    """Gemma 3 270M (base), Q4_K_M."""
    return _real("GOLEM_TEST_GEMMA3", "gemma-3-270m-q4_k_m.gguf")


@pytest.fixture(scope="session")
def minilm_path() -> Path:
    """all-MiniLM-L6-v2, a sentence-transformers directory."""
    path = Path(os.environ.get("GOLEM_TEST_MINILM") or cache_folder() / "all-MiniLM-L6-v2")
    if not (path / "model.safetensors").is_file():
        pytest.skip("needs all-MiniLM-L6-v2: set GOLEM_TEST_MINILM, or run `python tests/fetch_test_models.py`")
    return path


@pytest.fixture(scope="session")
def oracle_python() -> str:
    """The interpreter that has llama.cpp and transformers."""
    python = os.environ.get("GOLEM_ORACLE_PYTHON")
    if not python:
        pytest.skip("needs the oracles: set GOLEM_ORACLE_PYTHON to an interpreter that has golem-host's `oracle` extra")
    return python


@pytest.fixture(scope="session")
def oracle(oracle_python: str) -> Iterator[Oracle]:
    """llama.cpp and transformers."""
    # Here: plugins' authors, whose golem-host is a checkout, run its conformance suite without the tests on the path.
    from oracle_client import Oracle

    with Oracle(oracle_python) as oracle:
        yield oracle


@pytest.fixture(scope="module", params=[True, False], ids=["native", "twins"])
def each_backend(request: pytest.FixtureRequest) -> CpuBackend:
    """The processor with its kernels, and with the torch twins alone."""
    if request.param and library.load() is None:
        pytest.skip("the native kernels were not built")
    # torch's threads, which are no part of what is tested, wait long for each other where others want the cores, too.
    return CpuBackend(threads=2 if request.param else 1, native=request.param)


@pytest.fixture(scope="session")
def kernels() -> CpuBackend:
    """The processor with its kernels: real models are too slow without them."""
    if library.load() is None:
        pytest.skip("the native kernels were not built")
    return CpuBackend(threads=2)


@pytest.fixture(scope="session")
def llama_source() -> Path:
    """The llama.cpp tree, for its vocabularies, test vectors and templates."""
    folder = os.environ.get("GOLEM_LLAMA_SOURCE")
    if not folder or not (Path(folder) / "models").is_dir():
        pytest.skip("needs llama.cpp's sources: set GOLEM_LLAMA_SOURCE")
    return Path(folder)
