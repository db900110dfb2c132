"""Fixtures of the embed plugin's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from oracle_client import Oracle


@pytest.fixture(scope="session")
def oracle(oracle_python: str) -> Iterator[Oracle]:
    """llama.cpp and transformers."""
    with Oracle(oracle_python) as oracle:
        yield oracle


@pytest.fixture(scope="module", params=[True, False], ids=["native", "twins"])
def each_backend(request: pytest.FixtureRequest) -> CpuBackend:
    """The processor with its kernels, and with the torch twins alone."""
    if request.param and library.load() is None:
        pytest.skip("the native kernels were not built")
    return CpuBackend(threads=2, native=request.param)


@pytest.fixture(scope="session")
def kernels() -> CpuBackend:
    """The processor with its kernels: real models are too slow without them."""
    if library.load() is None:
        pytest.skip("the native kernels were not built")
    return CpuBackend(threads=2)
