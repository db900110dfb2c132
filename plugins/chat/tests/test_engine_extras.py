"""What a request may ask beside an answer, on a tiny model: probabilities, progress, timings, a slot."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from golem_host.lanes.job import Job
from golem_host_chat.generation import Completion, Delta, Extras, Generation, Progress
from golem_host_chat.likelihoods import Probabilities
from golem_host_chat.passes import Columns
from golem_host_chat.sampling_params import SamplingParams
from test_engine import Engine, tiny

HOT = SamplingParams(temperature=1.3, seed=3, repeat_penalty=1.2, dry_multiplier=0.8)
PROBS = Extras(probs=Probabilities(4))


@pytest.fixture(scope="module")
def backend() -> CpuBackend:
    if library.load() is None:
        pytest.skip("the native kernels were not built")
    return CpuBackend(threads=1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("tiny"), "llama")


@pytest.fixture
def engine(checkpoint: Path, backend: CpuBackend) -> Engine:
    return Engine(checkpoint, backend)


def events_of(engine: Engine, job: Job[Generation]) -> list[Any]:
    """What a job told, read after it ended."""
    engine.run()

    async def read() -> list[Any]:
        return [event async for event in job.events()]

    return asyncio.run(read())


def test_probabilities_are_those_of_the_models_logits(engine: Engine, checkpoint: Path, backend: CpuBackend) -> None:
    prompt = engine.prompt(20, 1)
    answer = engine.answer(prompt, params=HOT, extras=PROBS)
    assert answer.tokens == engine.answer(prompt, params=HOT).tokens
    assert [token.id for token in answer.probabilities] == answer.tokens
    assert "".join(token.text for token in answer.probabilities) == answer.text
    other = Engine(checkpoint, backend)
    for place, token in enumerate(answer.probabilities):
        columns = Columns()
        known = prompt + answer.tokens[:place]
        columns.add(0, 0, known, output=True)
        logits = other.passes.run(columns).logits[0].astype(np.float64)
        expected = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        # Exponentials are taken in float32.
        assert token.likelihood.value == pytest.approx(expected[token.id], abs=1e-6)
        assert [id for id, _ in token.likelihood.top] == np.argsort(-logits, kind="stable")[:4].tolist()


@pytest.mark.parametrize("after", [False, True])
def test_probabilities_do_not_depend_on_company(
    engine: Engine, checkpoint: Path, backend: CpuBackend, after: bool
) -> None:
    extras = Extras(probs=Probabilities(6, after=after))
    prompts = [engine.prompt(length, length) for length in (3, 30, 17)]
    jobs = [engine.submit(prompt, params=HOT, extras=extras) for prompt in prompts]
    engine.submit(engine.prompt(9, 9), params=HOT)
    engine.run()
    for prompt, job in zip(prompts, jobs, strict=True):
        alone = Engine(checkpoint, backend).answer(prompt, params=HOT, extras=extras)
        assert job.value.probabilities == alone.probabilities
        assert job.value.tokens == alone.tokens


def test_streams_carry_the_same(engine: Engine) -> None:
    extras = replace(PROBS, ids=True, timed=True)
    job = engine.submit(engine.prompt(20, 1), params=HOT, extras=extras)
    deltas = events_of(engine, job)
    answer: Completion = job.value
    assert all(isinstance(delta, Delta) for delta in deltas)
    assert tuple(token for delta in deltas for token in delta.tokens) == answer.probabilities
    assert [id for delta in deltas for id in delta.ids] == answer.tokens
    assert {delta.slot for delta in deltas} == {answer.slot}
    drawn = [delta.timings.predicted_n for delta in deltas if delta.timings is not None]
    assert len(drawn) == len(deltas) and drawn[-1] == len(answer.tokens) and drawn == sorted(drawn)


def test_progress_is_told_while_the_prompt_is_read(engine: Engine) -> None:
    engine.stepper._chunk = 16
    prompt = engine.prompt(60, 2)
    extras = Extras(progress=True)
    reports = [each for each in events_of(engine, engine.submit(prompt, extras=extras)) if isinstance(each, Progress)]
    assert reports[0].processed == reports[0].cached == 0 and reports[-1].processed == 60
    assert len(reports) > 2 and {report.total for report in reports} == {60}
    again = [each for each in events_of(engine, engine.submit(prompt, extras=extras)) if isinstance(each, Progress)]
    assert (again[0].processed, again[0].cached, again[-1].processed) == (59, 59, 60)


def test_the_slot_that_was_asked_for(engine: Engine) -> None:
    prompt = engine.prompt(20, 3)
    first = engine.answer(prompt, extras=Extras(slot=2))
    assert (first.slot, first.cached_tokens) == (2, 0)
    other = engine.answer(prompt, extras=Extras(slot=1))
    assert other.slot == 1 and other.tokens == first.tokens
    assert engine.answer(prompt, extras=Extras(slot=2)).cached_tokens == 19


def test_those_behind_an_answer_that_waits_for_its_slot_pass(engine: Engine) -> None:
    long = engine.submit(engine.prompt(5, 1), tokens=30, extras=Extras(slot=0))
    waiting = [engine.submit(engine.prompt(5, seed), tokens=2, extras=Extras(slot=0)) for seed in (2, 3)]
    passing = engine.submit(engine.prompt(5, 4), tokens=2)
    engine.run(passes=6)
    assert passing.end is not None and passing.value.slot != 0
    assert all(job.end is None and job.started is None for job in (*waiting,)) and long.end is None
    engine.run()
    assert [job.value.slot for job in waiting] == [0, 0]


def test_a_full_context_is_told(checkpoint: Path, backend: CpuBackend) -> None:
    engine = Engine(checkpoint, backend, context=32)
    endless = SamplingParams(
        temperature=0.0, logit_bias=tuple((id, -np.inf) for id in engine.tokenizer.vocab.end_of_generation)
    )
    full = engine.answer(engine.prompt(20, 1), tokens=None, params=endless)
    assert (full.truncated, full.finish, full.completion_tokens) == (True, "length", 12)
    assert not engine.answer(engine.prompt(20, 1), tokens=5, params=endless).truncated
