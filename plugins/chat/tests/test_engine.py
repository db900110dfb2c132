"""The chat engine on tiny checkpoints: answers do not depend on company, and nothing that goes wrong spreads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.api import BadRequest, ContextExceeded, Job, StepwiseLane
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from golem_host.lanes.job import End
from golem_host.lanes.lane import PASS_SECONDS
from golem_host.ops import CacheType
from golem_host.testing.tiny import tiny_gguf
from golem_host.text.tokenizer import tokenizer_from_gguf
from golem_host.weights.gguf import open_gguf
from golem_host_chat.families import family_of
from golem_host_chat.generation import Completion, Generation
from golem_host_chat.passes import Columns, Passes
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.scores import Scores
from golem_host_chat.stepper import MIN_CHUNK, ChatStepper
from recurrent_family import Recurrent

FAMILIES = {
    "llama": "Q8_0",
    "qwen3": "Q4_1",
    "gemma2": "Q8_0",
    "gemma3": "F32",
    "gemma4": "Q8_0",
    "qwen3moe": "Q4_0",
    "qwen35": "Q8_0",
    "recurrent": "Q8_0",
}
GREEDY = SamplingParams(temperature=0.0)


@pytest.fixture(scope="module", params=[True, False], ids=["native", "twins"])
def backend(request: pytest.FixtureRequest) -> CpuBackend:
    if request.param and library.load() is None:
        pytest.skip("the native kernels were not built")
    # One torch thread: its barriers spin, which on busy cores makes each small step take milliseconds.
    return CpuBackend(threads=2 if request.param else 1, native=request.param)


@pytest.fixture(scope="module", params=list(FAMILIES))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("tiny"), request.param)


def tiny(folder: Path, family: str) -> Path:
    """A checkpoint of one of `FAMILIES` with a window of 8; its name tells the engine which."""
    architecture = "llama" if family == "recurrent" else family
    return tiny_gguf(folder / f"{family}.gguf", architecture, quantization=FAMILIES[family], window=8, context=256)


class Engine:
    """One model's lane, run by hand."""

    def __init__(
        self,
        path: Path,
        backend: Any,
        *,
        slots: int = 4,
        context: int = 128,
        kv_type: CacheType = CacheType.F16,
        **options: Any,
    ) -> None:
        gguf = open_gguf(path)
        self.tokenizer = tokenizer_from_gguf(gguf)
        family = Recurrent(gguf) if path.stem == "recurrent" else family_of(gguf)
        self.passes = Passes(family, backend, slots=slots, context=context, kv_type=kv_type)
        self.stepper = ChatStepper(self.passes, self.tokenizer, **options)
        self.lane = StepwiseLane("test", self.stepper, kind="chat")
        self.vocab_size = min(len(self.tokenizer.vocab), self.passes.vocab_size)

    def submit(self, prompt: list[int], *, tokens: int | None = 12, **options: Any) -> Job[Generation]:
        options.setdefault("params", GREEDY)
        job = Job(Generation(prompt=prompt, max_tokens=tokens, **options))
        self.lane.submit(job)
        return job

    def run(self, passes: int = 10_000) -> None:
        for _ in range(passes):
            if self.lane.next_time(0.0) is None:
                return
            self.lane.run(0.0)

    def answer(self, prompt: list[int], **options: Any) -> Completion:
        job = self.submit(prompt, **options)
        self.run()
        assert job.error is None, job.error
        return job.value

    def prompt(self, length: int, seed: int) -> list[int]:
        eog = self.tokenizer.vocab.end_of_generation
        ids = [i for i in range(self.vocab_size) if i not in eog]
        return np.random.default_rng(seed).choice(ids, length).tolist()


@pytest.fixture
def engine(checkpoint: Path, backend: CpuBackend) -> Engine:
    return Engine(checkpoint, backend)


def test_answers_together_are_the_answers_alone(engine: Engine, checkpoint: Path, backend: CpuBackend) -> None:
    prompts = [engine.prompt(length, seed) for seed, length in enumerate((1, 5, 40, 23))]
    hot = SamplingParams(temperature=1.5, seed=7, repeat_penalty=1.3)
    rules = [hot if i % 2 else GREEDY for i in range(4)]
    alone = [Engine(checkpoint, backend).answer(p, params=r).tokens for p, r in zip(prompts, rules, strict=True)]
    jobs = [engine.submit(p, params=r) for p, r in zip(prompts, rules, strict=True)]
    engine.run()
    assert [job.value.tokens for job in jobs] == alone


def test_logits_have_the_same_bits_however_the_prompt_is_cut(checkpoint: Path, backend: CpuBackend) -> None:
    def logits(cuts: list[int], company: bool) -> np.ndarray:
        engine = Engine(checkpoint, backend)
        prompt, other = engine.prompt(40, 1), engine.prompt(40, 2)
        at, rows = 0, np.empty((0, 0), np.float32)
        for cut in [*cuts, len(prompt)]:
            columns = Columns()
            if company:
                columns.add(3, at, other[at:cut], output=True)
            columns.add(1, at, prompt[at:cut], output=True)
            rows = engine.passes.run(columns).logits
            at = cut
        return rows[-1].copy()

    whole = logits([], False)
    assert np.isfinite(whole).all() and whole.std() > 0
    for cuts, company in (([1], False), ([39], True), ([7, 8, 33], True), (list(range(1, 40)), False)):
        np.testing.assert_array_equal(logits(cuts, company), whole)


def test_a_kept_prefix_gives_the_same_answer(engine: Engine, checkpoint: Path, backend: CpuBackend) -> None:
    first = engine.prompt(30, 1)
    engine.answer(first)
    longer = [*first[:25], *engine.prompt(10, 2)]
    again = engine.answer(longer)
    fresh = Engine(checkpoint, backend).answer(longer)
    states = engine.passes.memory.layout.recurrent  # which were nowhere on the way, then at the checkpoint made there
    assert again.cached_tokens == (0 if states else 25) and fresh.cached_tokens == 0
    assert again.tokens == fresh.tokens
    repeated = engine.answer(longer)
    assert repeated.cached_tokens == (25 if states else len(longer) - 1) and repeated.tokens == fresh.tokens
    declined = engine.answer(longer, reuse=False)
    assert declined.cached_tokens == 0 and declined.tokens == fresh.tokens


@pytest.mark.parametrize("family", ["qwen3", "gemma3"])
def test_a_q8_0_cache_keeps_the_promises(family: str, tmp_path: Path, backend: CpuBackend) -> None:
    """Together as alone, with a kept prefix and a copied one; and near to what f16 computes."""
    path = tiny_gguf(tmp_path / "m.gguf", family, quantization="Q8_0", window=8, context=256)
    engine = Engine(path, backend, kv_type=CacheType.Q8_0)
    prompts = [engine.prompt(length, seed) for seed, length in enumerate((70, 5, 90))]
    prompts.append([*prompts[2][:80], *engine.prompt(5, 9)])
    alone = [Engine(path, backend, kv_type=CacheType.Q8_0).answer(prompt).tokens for prompt in prompts]
    jobs = [engine.submit(prompt) for prompt in prompts[:3]]
    engine.run()
    assert [job.value.tokens for job in jobs] == alone[:3]
    engine.stepper._slots[jobs[2].value.slot].busy = True  # so that its prefix is copied
    copied = engine.answer(prompts[3])
    assert copied.tokens == alone[3] and copied.slot != jobs[2].value.slot
    assert copied.cached_tokens == 80

    def logits(kind: CacheType) -> np.ndarray:
        columns = Columns()
        columns.add(1, 0, prompts[0], output=True)
        return Engine(path, backend, kv_type=kind).passes.run(columns).logits[0].copy()

    f16, q8_0 = logits(CacheType.F16), logits(CacheType.Q8_0)
    assert 0 < (f16 - q8_0).std() < 0.1 * f16.std()


def test_a_window_is_rewound_rightly_or_not_at_all(checkpoint: Path, backend: CpuBackend, monkeypatch) -> None:
    monkeypatch.setattr(backend, "widest_pass", 8)
    engine = Engine(checkpoint, backend, slots=1)
    first = engine.prompt(60, 1)
    engine.answer(first, tokens=4)
    for shared in (58, 20, 61):
        held = [*first, 1, 2, 3][:shared]
        prompt = [*held, *engine.prompt(9, shared)]
        again = engine.answer(prompt, tokens=6)
        assert again.tokens == Engine(checkpoint, backend, slots=1).answer(prompt, tokens=6).tokens
        if "gemma3" in checkpoint.name and shared == 20:
            assert again.cached_tokens == 0


def test_a_state_goes_on_where_it_is_or_begins_anew(checkpoint: Path, backend: CpuBackend) -> None:
    """What a slot was fed is the start of the next prompt, in the same slot and in one it is copied to."""
    engine = Engine(checkpoint, backend, slots=2)
    first = engine.prompt(90, 1)
    answer = engine.answer(first, tokens=5)
    held = [*first, *answer.tokens[:-1]]
    longer = [*held, *engine.prompt(7, 2)]
    fresh = Engine(checkpoint, backend).answer(longer).tokens
    engine.stepper._slots[answer.slot].busy = True
    copied = engine.answer(longer)
    assert copied.slot != answer.slot
    engine.stepper._slots[answer.slot].busy = False
    assert (copied.cached_tokens, copied.tokens) == (len(held), fresh)


def test_streamed_text_is_the_answer(engine: Engine) -> None:
    job = engine.submit(engine.prompt(9, 3), tokens=20)
    engine.run()
    assert "".join(event.text for event in job._events) == job.value.text


def test_token_limits_and_a_full_context(engine: Engine) -> None:
    prompt = engine.prompt(10, 4)
    no_end = SamplingParams(
        temperature=0.0, logit_bias=tuple((i, -np.inf) for i in engine.tokenizer.vocab.end_of_generation)
    )
    limited = engine.answer(prompt, tokens=3, params=no_end)
    assert limited.finish == "length" and limited.completion_tokens == 3
    nothing = engine.answer(prompt, tokens=0, params=no_end)
    assert nothing.completion_tokens == 0 and nothing.text == "" and nothing.finish == "length"
    full = engine.answer(prompt, tokens=None, params=no_end)
    assert full.finish == "length" and full.completion_tokens == engine.passes.context - len(prompt)


def test_the_end_token_stops_and_is_counted_but_not_shown(engine: Engine) -> None:
    end = min(engine.tokenizer.vocab.end_of_generation)
    done = engine.answer(engine.prompt(5, 5), params=SamplingParams(temperature=0.0, logit_bias=((end, 1e6),)))
    assert (done.finish, done.tokens, done.text) == ("stop", [end], "")


def test_prompts_that_cannot_be_served_fail_alone(engine: Engine) -> None:
    good = engine.submit(engine.prompt(5, 6))
    for prompt, error in (
        ([], BadRequest),
        ([engine.vocab_size], BadRequest),
        ([-1], BadRequest),
        ([1] * engine.passes.context, ContextExceeded),
    ):
        bad = engine.submit(prompt)
        engine.run()
        assert isinstance(bad.error, error)
    assert good.end is End.DONE


def test_a_client_that_leaves_mid_prompt_frees_its_slot_in_the_next_pass(checkpoint: Path, backend: CpuBackend) -> None:
    engine = Engine(checkpoint, backend, slots=1)
    engine.stepper._chunk = 16
    leaving, waiting = engine.submit(engine.prompt(100, 1)), engine.submit(engine.prompt(3, 2), tokens=1)
    engine.run(passes=2)
    leaving.cancel()
    engine.run(passes=1)
    assert waiting.end is End.DONE
    assert waiting.value.tokens == Engine(checkpoint, backend).answer(engine.prompt(3, 2), tokens=1).tokens


def test_a_pass_that_fails_leaves_nothing_wrong_behind(
    engine: Engine, checkpoint: Path, backend: CpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = engine.prompt(20, 1)
    engine.answer(prompt)
    with monkeypatch.context() as broken:
        broken.setattr(engine.passes, "run", lambda columns: 1 / 0)
        lost = engine.submit(prompt)
        engine.run(passes=1)
    assert lost.end is End.FAILED
    assert engine.answer(prompt).tokens == Engine(checkpoint, backend).answer(prompt).tokens


def test_bad_logits_fail_one_request(
    engine: Engine, checkpoint: Path, backend: CpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = engine.passes.run
    poisoned: set[int] = set()

    def run(columns: Columns) -> Scores:
        scores = real(columns)
        for row, column in enumerate(columns.outputs):
            if columns.slots[column] in poisoned:
                scores.best[row] = -1
        return scores

    monkeypatch.setattr(engine.passes, "run", run)
    bad, good = engine.submit(engine.prompt(5, 1)), engine.submit(engine.prompt(6, 2))
    engine.run(passes=1)
    poisoned.add(engine.stepper._conversations[0].slot.index)
    engine.run()
    assert bad.end is End.FAILED
    assert good.value.tokens == Engine(checkpoint, backend).answer(engine.prompt(6, 2)).tokens


def test_copies_of_one_prompt_read_it_once(engine: Engine) -> None:
    prompt = engine.prompt(100, 1)
    leader = engine.submit(prompt, tokens=3, followed=True)
    copies = [engine.submit(prompt, tokens=3, follows=leader.id) for _ in range(2)]
    engine.run()
    assert [job.value.cached_tokens for job in (leader, *copies)] == [0, 99, 99]
    assert copies[0].value.tokens == copies[1].value.tokens == leader.value.tokens


def test_forgotten_after_its_time(checkpoint: Path, backend: CpuBackend) -> None:
    engine = Engine(checkpoint, backend)
    engine.stepper._cache_ttl = 1e-9
    prompt = engine.prompt(20, 1)
    engine.answer(prompt)
    assert engine.answer(prompt).cached_tokens == 0


def test_a_pass_says_what_it_carried(engine: Engine) -> None:
    engine.submit(engine.prompt(5, 1))
    engine.run(passes=1)
    assert engine.lane.pass_note() == "slot 0 reads 5; 5 columns"
    engine.submit(engine.prompt(3, 2))
    engine.run(passes=1)
    assert engine.lane.pass_note() == "slot 0 draws, slot 1 reads 3; 4 columns"


def test_prompt_chunks_follow_the_time_a_pass_may_take(tmp_path: Path, backend: CpuBackend) -> None:
    """At once, and back again; the speed seen in short passes counts for long ones."""
    stepper = Engine(tiny_gguf(tmp_path / "tiny.gguf"), backend).stepper
    stepper._chunk = widest = stepper.passes.widest
    stepper.pass_seconds = lambda: PASS_SECONDS / 2
    assert stepper._room() == widest // 2 >= MIN_CHUNK
    stepper._adapt(widest // 2, PASS_SECONDS)
    assert stepper._chunk == widest // 2
    stepper.pass_seconds = lambda: PASS_SECONDS
    assert stepper._room() == widest // 2
    stepper._chunk = MIN_CHUNK
    stepper.pass_seconds = lambda: PASS_SECONDS / 100
    assert stepper._room() == MIN_CHUNK
