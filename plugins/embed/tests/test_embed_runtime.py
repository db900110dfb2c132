"""Loaded models on a device: requests of many texts, requests at once, and the one with the damaged text."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from encoder_checks import random_texts
from golem_host.api import InternalError, Job, ModelFileError, RequestError, StepwiseLane, Unavailable
from golem_host.devices.cpu import CpuBackend
from golem_host.devices.device import Device
from golem_host.testing.fakes import Script, ScriptStepper
from golem_host.testing.tiny_bert import tiny_bert_directory, tiny_bert_gguf
from golem_host.testing.tiny_nomic_bert import tiny_nomic_gguf
from golem_host.weights import open_safetensors
from golem_host_embed.checkpoint import open_checkpoint
from golem_host_embed.model import EmbedModel
from golem_host_embed.passes import PASS_ROWS, Passes
from golem_host_embed.runtime import EmbedRuntime
from golem_host_embed.tokens import Tokens

SETTINGS: dict[str, Any] = {"queue": 64}
VOCAB = 60


@pytest.fixture
def device() -> Iterator[Device]:
    device = Device("cpu", lambda: CpuBackend(threads=2))
    device.start()
    yield device
    device.stop()


def load(path: Path, device: Device) -> EmbedRuntime:
    runtime = EmbedModel(path).load(device, SETTINGS, lambda share: None)
    device.attach(runtime.lane)
    return runtime


def submit(runtime: EmbedRuntime, texts: list[Tokens]) -> Job[Any]:
    job = runtime.job(texts)
    runtime.lane.submit(job)
    return job


def texts_of(lists: list[list[int]]) -> list[Tokens]:
    return [Tokens(ids, []) for ids in lists]


def answer(job: Job[Any]) -> NDArray[np.float32]:
    return asyncio.run(job.result())


def test_vectors_come_in_the_order_of_the_texts(tmp_path: Path, device: Device) -> None:
    runtime = load(tiny_nomic_gguf(tmp_path / "m.gguf"), device)
    texts = texts_of(random_texts(20, VOCAB))
    vectors = answer(submit(runtime, texts))
    assert vectors.shape == (20, runtime.width) == (20, 64) and vectors.dtype == np.float32
    for at in (0, 7, 19):
        assert answer(submit(runtime, texts[at : at + 1])).tobytes() == vectors[at : at + 1].tobytes()
    assert not np.allclose(np.linalg.norm(vectors, axis=1), 1)


def test_a_request_over_the_budget_is_cut(tmp_path: Path, device: Device) -> None:
    """... and another is answered before it is through."""
    runtime = load(tiny_bert_gguf(tmp_path / "m.gguf", layers=1), device)
    texts = texts_of(random_texts(1200, VOCAB, longest=64))
    assert sum(map(len, texts)) > 8 * PASS_ROWS
    large = submit(runtime, texts)
    while runtime.lane.passes == 0 and large.end is None:
        pass
    small = submit(runtime, texts[5:6])
    alone = answer(small)
    assert large.end is None
    vectors = answer(large)
    assert vectors[5:6].tobytes() == alone.tobytes()
    assert runtime.lane.passes >= 9
    backwards = answer(submit(runtime, texts[::-1]))
    assert backwards[::-1].tobytes() == vectors.tobytes()


def test_concurrent_requests_get_what_they_get_alone(tmp_path: Path, device: Device) -> None:
    runtime = load(tiny_nomic_gguf(tmp_path / "m.gguf", quantization="Q8_0", width=64, ff_width=96), device)
    requests = [texts_of(random_texts(1 + seed % 5, VOCAB, seed=seed)) for seed in range(24)]
    alone = [answer(submit(runtime, request)).tobytes() for request in requests]
    with ThreadPoolExecutor(8) as clients:
        together = list(clients.map(lambda request: answer(submit(runtime, request)).tobytes(), requests))
    assert together == alone


def test_requests_that_arrive_during_a_pass_share_the_next(
    tmp_path: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = load(tiny_bert_gguf(tmp_path / "m.gguf", layers=1), device)
    entered, go, passes = threading.Event(), threading.Event(), []
    run = runtime._passes.run

    def slow(tokens: Any, segments: Any, lengths: NDArray[np.int32]) -> Any:
        passes.append(len(lengths))
        entered.set()
        assert go.wait(30)
        return run(tokens, segments, lengths)

    monkeypatch.setattr(runtime._passes, "run", slow)
    first = submit(runtime, texts_of([[2, 5, 3]]))
    assert entered.wait(30)
    others = [submit(runtime, texts_of(random_texts(3, VOCAB))) for _ in range(4)]
    go.set()
    for job in (first, *others):
        answer(job)
    assert passes == [1, 12]


def damage(path: Path, token: int) -> None:
    """Make the embedding of a token NaN."""
    weights = path / "model.safetensors"
    with open_safetensors(weights) as file:
        table = file.tensors["embeddings.word_embeddings.weight"]
        row = table.data[token * table.row_bytes : (token + 1) * table.row_bytes].tobytes()
    weights.write_bytes(weights.read_bytes().replace(row, np.float32(np.nan).tobytes() + row[4:]))


def test_a_text_that_is_not_finite_fails_its_request_alone(tmp_path: Path, device: Device) -> None:
    folder = tiny_bert_directory(tmp_path / "bert")
    damage(folder, 50)
    runtime = load(folder, device)
    with runtime.lane.arriving():
        good = submit(runtime, texts_of([[2, 5, 3], [2, 9, 9, 3]]))
        bad = submit(runtime, texts_of([[2, 7, 3], [2, 50, 3]]))
        other = submit(runtime, texts_of([[2, 5, 3]]))
    vectors = answer(good)
    with pytest.raises(InternalError, match="for text 1 is not finite"):
        answer(bad)
    assert answer(other).tobytes() == vectors[:1].tobytes()


def test_a_token_that_is_not_there_fails_its_request_alone(tmp_path: Path, device: Device) -> None:
    runtime = load(tiny_bert_gguf(tmp_path / "m.gguf"), device)
    with runtime.lane.arriving():
        bad, good = submit(runtime, texts_of([[2, 10**6, 3]])), submit(runtime, texts_of([[2, 5, 3]]))
    with pytest.raises(RequestError):
        answer(bad)
    assert np.isfinite(answer(good)).all()


@pytest.mark.parametrize("lengths", [[], [0], [5, 0], [129]])
def test_texts_that_no_pass_takes(tmp_path: Path, device: Device, lengths: list[int]) -> None:
    runtime = load(tiny_bert_gguf(tmp_path / "m.gguf", context=128), device)
    with pytest.raises(ValueError, match="texts of 1 to 128 tokens"):
        submit(runtime, texts_of([[5] * n for n in lengths]))


def test_scores_of_pairs(tmp_path: Path, device: Device) -> None:
    runtime = load(tiny_bert_directory(tmp_path / "cross", classifier=True), device)
    pairs = list(runtime.tokens.pairs("hello", ["the king", "queen of the world"], runtime.context))
    scores = answer(submit(runtime, pairs))
    assert scores.shape == (2, 1)
    one_segment = [Tokens(pair.ids, []) for pair in pairs]
    assert not np.array_equal(answer(submit(runtime, one_segment)), scores)


def test_memory_is_the_files_and_the_passes(tmp_path: Path) -> None:
    path = tiny_nomic_gguf(tmp_path / "m.gguf", quantization="F16", width=256, ff_width=1024)
    passes = Passes(open_checkpoint(path), CpuBackend(threads=1), capacity=PASS_ROWS)
    passes.prepare(lambda share: None)
    taken = 0
    for program in passes._programs.values():
        memory = program._memory
        arena = [memory[ref] for ref in memory if ref not in program._recording.inputs.values()]
        taken += max(a.ctypes.data + a.nbytes for a in arena) - min(a.ctypes.data for a in arena)
    told = EmbedModel(path).memory_bytes(SETTINGS) - path.stat().st_size
    assert 0.8 * told < taken <= told


def test_an_embedding_waits_for_at_most_two_passes_of_a_chat(tmp_path: Path, device: Device) -> None:
    """While four conversations draw without an end: passes they had between the request and its answer."""
    runtime = load(tiny_nomic_gguf(tmp_path / "m.gguf"), device)
    chat = StepwiseLane("chat", ScriptStepper(4, pass_seconds=0.01), kind="chat")
    device.attach(chat)
    talks: list[Job[Any]] = [Job(Script(events=None)) for _ in range(4)]
    for talk in talks:
        chat.submit(talk)
    waited = []
    for seed in range(20):
        while chat.passes < 3 * seed:
            time.sleep(0.001)
        before = chat.passes
        job = submit(runtime, texts_of(random_texts(1, VOCAB, seed=seed)))
        answer(job)
        waited.append(chat.passes - before)
    for talk in talks:
        talk.cancel()
    assert max(waited) <= 2


def test_a_closed_model(tmp_path: Path, device: Device) -> None:
    runtime = load(tiny_bert_gguf(tmp_path / "m.gguf"), device)
    device.detach(runtime.lane)
    runtime.close()
    with pytest.raises(Unavailable):
        submit(runtime, texts_of([[2, 5, 3]]))


def test_a_file_that_lacks_a_tensor_is_not_loaded(tmp_path: Path, device: Device) -> None:
    path = tiny_bert_gguf(tmp_path / "m.gguf", metadata={"bert.block_count": 3})
    with pytest.raises(ModelFileError, match=r"blk\.2\.attn_q\.weight' is missing"):
        load(path, device)


def test_a_model_replaced_by_one_of_another_kind(tmp_path: Path, device: Device) -> None:
    model = EmbedModel(tiny_bert_directory(tmp_path / "bert"))
    tiny_bert_directory(tmp_path / "bert", classifier=True)
    (tmp_path / "bert" / "modules.json").unlink(missing_ok=True)
    with pytest.raises(ModelFileError, match="replaced by a model of another kind"):
        model.load(device, {"queue": 8}, lambda share: None)
    assert model.kind == "embed"
