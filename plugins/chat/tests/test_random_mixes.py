"""Random mixes of conversations: whatever ran beside an answer, it is the one that its request gets alone.

Alone: one thread, weights as the file stores them, the whole prompt in one pass, nothing kept. In company: one to three
threads, weights re-laid, prompts cut anywhere, prefixes kept or copied, requests that come and leave at any pass.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from golem_host.api import Job
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from golem_host_chat import checkpoints, prompt_cache, slots
from golem_host_chat.generation import Generation
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.stepper import ChatStepper
from test_engine import FAMILIES, Engine, tiny

pytestmark = pytest.mark.skipif(library.load() is None, reason="the native kernels were not built")

REQUESTS = 16


@pytest.fixture(scope="module", params=list(FAMILIES))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("mixes"), request.param)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_answers_in_company_are_the_answers_alone(
    checkpoint: Path, threads: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)

    def cut_anywhere(stepper: ChatStepper, width: int, seconds: float) -> None:
        stepper._chunk = int(rng.integers(1, 40))

    monkeypatch.setattr(ChatStepper, "_adapt", cut_anywhere)
    # So that short prompts have something to copy and to put away.
    for module, name in ((slots, "COPY_GAIN"), (prompt_cache, "COPY_GAIN"), (checkpoints, "LEAST")):
        monkeypatch.setattr(module, name, 4)
    company = Engine(checkpoint, CpuBackend(threads=threads), slots=3, cache_bytes=1 << 20)
    company.passes.prepare(lambda share: None)
    requests: list[dict] = []
    jobs: list[Job[Generation]] = []
    leaving: list[Job[Generation]] = []
    for number in range(REQUESTS):
        before = requests[int(rng.integers(len(requests)))]["prompt"] if requests and rng.random() < 0.8 else []
        prompt = [*before[: int(rng.integers(10, 60))], *company.prompt(int(rng.integers(1, 40)), 100 * seed + number)]
        rules = SamplingParams(temperature=float(rng.choice([0.0, 1.3])), seed=number, repeat_penalty=1.1)
        requests.append({"prompt": prompt, "params": rules, "tokens": int(rng.integers(1, 20))})
        jobs.append(company.submit(**requests[-1]))
        if rng.random() < 0.2:
            leaving.append(company.submit(company.prompt(30, number), tokens=20))
        company.run(int(rng.integers(0, 6)))
        for job in leaving:
            job.cancel()
    company.run()

    monkeypatch.setattr(ChatStepper, "_adapt", lambda stepper, width, seconds: setattr(stepper, "_chunk", 512))
    plain = CpuBackend(threads=1, repack=False)
    for job, request in zip(jobs, requests, strict=True):
        assert job.error is None, job.error
        assert job.value.tokens == Engine(checkpoint, plain, slots=1).answer(**request).tokens
    assert any(job.value.cached_tokens for job in jobs)
