"""Weights of a model in device memory: uploaded once, refused whole when they do not fit, gone with their file."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host import ops
from golem_host.devices.vulkan.backend import VulkanBackend
from golem_host.devices.vulkan.dispatch import Transposed, Vector, Weights
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.lower import lower
from golem_host.devices.vulkan.weights import wanted_by
from golem_host.errors import InternalError
from golem_host.ops import Recording
from golem_host.testing.tiny import tiny_gguf
from golem_host.weights.gguf import open_gguf
from golem_host_chat.families import family_of
from golem_host_chat.passes import Passes
from ops_checks import weight


def two_products() -> tuple[Recording, Any, Any]:
    """A recording that multiplies by one matrix twice and by another once, with a norm between."""
    recording = Recording()
    matrix, other = weight("Q4_0", 64, 64), weight("F16", 40, 64)
    x = recording.input("x", recording.axis("rows", 4), 64, dtype="f32")
    x = ops.rms_norm(ops.linear(ops.linear(x, matrix), matrix), weight("F32", 64), 1e-6)
    recording.output("out", ops.linear(x, other))
    return recording, matrix, other


def test_each_weight_is_uploaded_once_and_progress_rises_to_one(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = VulkanBackend(gpu)
    recording, matrix, other = two_products()
    wanted = wanted_by(lower(gpu, recording).dispatches)
    assert [each.tensor for each in wanted if isinstance(each, Weights)] == [matrix, other]
    assert backend.weights.missing_bytes(wanted) >= matrix.nbytes + other.nbytes
    shares: list[float] = []
    backend.prepare(recording, shares.append)
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert backend.weights.missing_bytes(wanted) == 0
    monkeypatch.setattr(gpu, "upload", lambda *_: pytest.fail("uploaded again"))
    backend.prepare(recording, lambda share: None)
    backend.compile(recording)


def test_what_does_not_fit_is_refused_with_the_numbers_before_anything_is_uploaded(
    gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_gguf(tiny_gguf(tmp_path / "m.gguf", width=512, feed_forward=2048)) as gguf:
        passes = Passes(family_of(gguf), VulkanBackend(gpu), slots=1, context=32)
        monkeypatch.setattr(gpu, "available", lambda heap: 3 << 20)
        monkeypatch.setattr(gpu, "upload", lambda *_: pytest.fail("uploaded"))
        with pytest.raises(InternalError, match=r"does not fit .* take \d+ MiB .* 3 MiB are free .*--vulkan-layers"):
            passes.prepare(lambda share: None)


def test_a_pass_wider_than_the_device_counts_is_refused_before_anything_is_uploaded(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = gpu.limits.workgroup_counts[1]
    monkeypatch.setattr(gpu, "upload", lambda *_: pytest.fail("uploaded"))
    recording = Recording()
    x = recording.input("x", recording.axis("rows", most + 1), 4, dtype="f32")
    recording.output("out", ops.rms_norm(x, weight("F32", 4), 1e-6))
    with pytest.raises(InternalError, match=f"a pass of {most + 1} rows is too wide for .* put this model on the cpu"):
        VulkanBackend(gpu).prepare(recording, lambda share: None)


def test_caches_that_do_not_fit_or_cannot_be_shown_are_refused(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = VulkanBackend(gpu)
    monkeypatch.setattr(gpu, "available", lambda heap: 1 << 20)
    with pytest.raises(InternalError, match="2 slots of 4096 positions do not fit"):
        backend.cache(slots=2, cells=4096, kv_heads=2, key_dim=64, value_dim=64)
    with pytest.raises(InternalError, match="states of 9 slots do not fit"):
        backend.state(slots=9, shape=(64, 64, 64))
    most = gpu.limits.storage_buffer_range // (2 * 64) + 1
    with pytest.raises(ValueError, match="lower the context"):
        backend.cache(slots=1, cells=most, kv_heads=1, key_dim=64, value_dim=64)
    with pytest.raises(ValueError, match="even numbers"):
        backend.cache(slots=1, cells=4, kv_heads=1, key_dim=63, value_dim=64)
    with pytest.raises(ValueError, match="f16 only, not as q8_0"):
        backend.cache(slots=1, cells=4, kv_heads=1, key_dim=64, value_dim=64, type=ops.CacheType.Q8_0)


def test_memory_of_weights_is_given_back_with_their_file(gpu: Gpu) -> None:
    gc.collect()
    before = len(gpu._claims)
    backend = VulkanBackend(gpu)
    recording, matrix, other = two_products()
    backend.prepare(recording, lambda share: None)
    assert len(gpu._claims) > before
    del recording, matrix, other
    gc.collect()
    assert len(gpu._claims) == before


def test_vectors_and_transposed_matrices_are_float32(gpu: Gpu) -> None:
    weights = VulkanBackend(gpu).weights
    half = weight("BF16", 6, 10)
    for wanted, expected in ((Vector(half), half.float32()), (Transposed(half), half.float32().T)):
        found = gpu.download(weights.view(wanted)).view(np.float32).reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)
