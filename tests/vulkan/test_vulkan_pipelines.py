"""Shaders, their specialization constants, and what is kept of compiling them."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from golem_host.devices.vulkan import pipeline_cache
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.physical import PhysicalDevice
from golem_host.devices.vulkan.pipelines import read_shader

AXPY = Path(__file__).parent / "shaders" / "axpy.spv"


@pytest.fixture
def cache_file(tmp_path: Path, physical: PhysicalDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the pipelines of this device are kept."""
    monkeypatch.setattr(pipeline_cache, "cache_folder", lambda: tmp_path)
    yield tmp_path / "vulkan" / f"{physical.driver_uuid}-{physical.uuid}.pipelines"


def _compile(physical: PhysicalDevice) -> None:
    with Gpu(physical) as gpu:
        gpu.kernel(AXPY, (64, 1.0, False))


def test_a_shader_says_what_it_binds_and_takes() -> None:
    shader = read_shader(AXPY)
    assert shader.bindings == 2
    assert shader.constants == {0: "int", 1: "float", 2: "bool"}


def test_a_kernel_is_made_once(gpu: Gpu) -> None:
    assert gpu.kernel(AXPY, (64, 1.0, False)) is gpu.kernel(AXPY, (64, 1.0, False))
    assert gpu.kernel(AXPY, (64, 1.0, False)) is not gpu.kernel(AXPY, (32, 1.0, False))


@pytest.mark.parametrize("constants", [(), (64,), (64, 1.0), (64, 1.0, False, 3)])
def test_constants_must_be_those_of_the_shader(gpu: Gpu, constants: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=f"constants 0, 1, 2; {len(constants)} are given"):
        gpu.kernel(AXPY, constants)


@pytest.mark.parametrize("value", [0.5, 2**32, -(2**31) - 1])
def test_a_whole_constant_must_be_one(gpu: Gpu, value: float) -> None:
    with pytest.raises(ValueError, match="of type int cannot be"):
        gpu.kernel(AXPY, (value, 1.0, False))


@pytest.mark.parametrize(
    "content", [b"", b"\x03\x02\x23\x07", bytes(400), AXPY.read_bytes()[:-12], AXPY.read_bytes()[:-3]]
)
def test_what_is_not_a_shader_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.spv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="bad.spv is"):
        read_shader(path)


def test_pipelines_are_kept_for_the_next_start(
    physical: PhysicalDevice, cache_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compile(physical)
    content = cache_file.read_bytes()
    assert hashlib.sha256(content[32:]).digest() == content[:32]
    given: list[bytes] = []
    read = pipeline_cache.PipelineCache._read
    monkeypatch.setattr(pipeline_cache.PipelineCache, "_read", lambda self: given.append(data := read(self)) or data)
    _compile(physical)
    assert given == [content[32:]]
    assert list(cache_file.parent.iterdir()) == [cache_file]


def _reseal(data: bytes) -> bytes:
    return hashlib.sha256(data).digest() + data


@pytest.mark.parametrize("kind", ["empty", "cut", "bit", "device", "version", "short", "large"])
def test_a_damaged_or_foreign_file_is_not_handed_to_the_driver(
    physical: PhysicalDevice,
    cache_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    _compile(physical)
    content = cache_file.read_bytes()
    data = bytearray(content[32:])
    if kind == "device":
        data[12] ^= 1
    if kind == "version":
        data[4] = 2
    bad = {
        "empty": b"",
        "cut": content[:-1],
        "bit": content[:-1] + bytes([content[-1] ^ 1]),
        "device": _reseal(bytes(data)),
        "version": _reseal(bytes(data)),
        "short": _reseal(b"\x20\x00\x00\x00"),
        "large": content,
    }[kind]
    cache_file.write_bytes(bad)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        if kind == "large":
            patch.setattr(pipeline_cache, "LARGEST", len(content) - 1)
        with Gpu(physical) as gpu:
            assert gpu._pipelines._cache._read() == b""
    assert "is damaged or of another driver" in caplog.text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are files on POSIX systems only")
def test_a_pipe_is_not_waited_for(physical: PhysicalDevice, cache_file: Path) -> None:
    cache_file.unlink(missing_ok=True)
    cache_file.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(cache_file)
    read: list[bytes] = []

    def opened() -> None:
        with Gpu(physical) as gpu:
            read.append(gpu._pipelines._cache._read())

    thread = threading.Thread(target=opened, daemon=True)
    thread.start()
    thread.join(20)
    assert read == [b""]


def test_a_folder_that_cannot_be_written_is_said(
    physical: PhysicalDevice, cache_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache_file.parent.write_text("not a folder")
    with caplog.at_level(logging.WARNING):
        _compile(physical)
    assert "cannot keep compiled pipelines" in caplog.text


def test_float_constants_have_the_bits_of_float32(gpu: Gpu) -> None:
    from golem_host.devices.vulkan.pipelines import _bits

    assert _bits("float", 1) == int(np.float32(1).view(np.uint32))
    assert (_bits("int", -1), _bits("int", 2**32 - 1), _bits("bool", 7)) == (2**32 - 1, 2**32 - 1, 1)
