"""Constrained answers drawn by the engine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.testing.tiny import tiny_gguf
from golem_host.text.tokenizer import tokenizer_from_gguf
from golem_host.weights.gguf import open_gguf
from golem_host_chat.constraints.constraint import Constraint
from golem_host_chat.constraints.json_schema import json_rule
from golem_host_chat.constraints.lexemes import gbnf_rules
from golem_host_chat.constraints.masking import allows, masked
from golem_host_chat.constraints.vocabulary import ConstraintVocabulary, UncompiledError
from golem_host_chat.sampling import Sampler
from golem_host_chat.sampling_filters import SamplingError
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.scores import Scores
from test_engine import GREEDY, Engine

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["one", "two"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "words": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
    },
    "required": ["kind", "count", "words"],
    "additionalProperties": False,
}
HOT = SamplingParams(temperature=2.0, top_k=0, top_p=1.0, min_p=0.0, seed=3)
USUAL = SamplingParams(temperature=1.5, seed=5)
PENALIZED = SamplingParams(temperature=1.0, seed=7, repeat_penalty=1.5, logit_bias=((40, -np.inf), (41, 5.0)))
RULES = [GREEDY, HOT, USUAL, PENALIZED]


@pytest.fixture(scope="module")
def backend() -> CpuBackend:
    return CpuBackend(threads=2)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    return tiny_gguf(folder / "llama.gguf", "llama", quantization="Q8_0", window=8, context=1024)


def schema_constraint(engine: Engine, schema: Any = SCHEMA) -> Constraint:
    return Constraint(ConstraintVocabulary(engine.tokenizer), f"start: answer\nanswer: {json_rule(schema)}\n")


def fits(text: str) -> bool:
    value = json.loads(text)
    return (
        list(value) == ["kind", "count", "words"]
        and value["kind"] in ("one", "two")
        and type(value["count"]) is int
        and 0 <= value["count"] <= 99
        and len(value["words"]) <= 2
        and all(len(word) <= 3 for word in value["words"])
    )


@pytest.mark.parametrize("params", RULES, ids=["greedy", "hot", "usual", "penalized"])
def test_answers_fit_and_end_by_themselves(path: Path, backend: CpuBackend, params: SamplingParams) -> None:
    engine = Engine(path, backend, context=512)
    answer = engine.answer(engine.prompt(9, 1), params=params, tokens=None, constraint=schema_constraint(engine))
    assert answer.finish == "stop" and fits(answer.text)
    assert answer.completion_tokens == len(answer.tokens)
    assert engine.tokenizer.decode(answer.tokens).decode() == answer.text


def test_together_as_alone(path: Path, backend: CpuBackend) -> None:
    """Constrained beside free, each under its own rules."""
    prompts = [Engine(path, backend).prompt(length, length) for length in (1, 30, 7, 12)]

    def submitted(engine: Engine, index: int) -> Any:
        constraint = schema_constraint(engine) if index % 2 == 0 else None
        return engine.submit(prompts[index], params=RULES[index], tokens=60, constraint=constraint)

    def alone(index: int) -> list[int]:
        engine = Engine(path, backend, context=512)
        job = submitted(engine, index)
        engine.run()
        return job.value.tokens

    expected = [alone(index) for index in range(4)]
    engine = Engine(path, backend, context=512)
    jobs = [submitted(engine, index) for index in range(4)]
    engine.run()
    assert [job.value.tokens for job in jobs] == expected


def test_one_constraint_serves_several_answers(path: Path, backend: CpuBackend) -> None:
    engine = Engine(path, backend, context=512)
    constraint = schema_constraint(engine)
    prompt = engine.prompt(5, 2)
    jobs = [engine.submit(prompt, params=HOT, tokens=None, constraint=constraint) for _ in range(3)]
    engine.run()
    texts = {job.value.text for job in jobs}
    assert len(texts) == 1 and fits(texts.pop())


def test_a_cut_answer_is_the_beginning_of_one_that_fits(path: Path, backend: CpuBackend) -> None:
    engine = Engine(path, backend, context=512)
    constraint = schema_constraint(engine)
    whole = engine.answer(engine.prompt(9, 1), params=HOT, tokens=None, constraint=constraint)
    cut = engine.answer(engine.prompt(9, 1), params=HOT, tokens=7, constraint=constraint)
    assert cut.finish == "length" and cut.tokens == whole.tokens[:7]
    last = engine.answer(engine.prompt(9, 1), params=HOT, tokens=len(whole.tokens), constraint=constraint)
    assert last.finish == "stop" and last.text == whole.text


def test_an_answer_may_end_where_more_may_follow(path: Path, backend: CpuBackend) -> None:
    """Then an end token is drawn like any other, and it is no text."""
    engine = Engine(path, backend, context=512)
    rules = f"start: answer\n{gbnf_rules('root ::= [xy]*')}"
    constraint = Constraint(ConstraintVocabulary(engine.tokenizer), rules)
    ends = engine.tokenizer.vocab.end_of_generation
    drawn = [
        engine.answer(engine.prompt(5, 1), params=replace(HOT, seed=seed), tokens=40, constraint=constraint)
        for seed in range(12)
    ]
    assert "stop" in {answer.finish for answer in drawn}
    for answer in drawn:
        assert set(answer.text) <= {"x", "y"}
        assert answer.finish == "length" or answer.tokens[-1] in ends


def test_what_is_banned_later_fails_after_what_was_drawn(path: Path, backend: CpuBackend) -> None:
    """A stream has begun by then: routes send the error as its last event."""
    engine = Engine(path, backend)
    constraint = Constraint(ConstraintVocabulary(engine.tokenizer), "start: answer\n" + gbnf_rules('root ::= "a" "b"'))
    banned = tuple((id, -np.inf) for id in range(engine.vocab_size) if b"b" in engine.tokenizer.piece(id))
    assert banned
    failing = engine.submit(engine.prompt(3, 1), params=SamplingParams(logit_bias=banned), constraint=constraint)
    engine.run()
    assert [event.text for event in failing._events] == ["a"]
    assert isinstance(failing.error, SamplingError) and failing.error.status == 400


def test_what_is_banned_fails_alone(path: Path, backend: CpuBackend, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(path, backend)
    constraint = schema_constraint(engine)
    banned = tuple((id, -np.inf) for id in range(engine.vocab_size))
    params = SamplingParams(temperature=1.0, logit_bias=banned)
    failing = engine.submit(engine.prompt(3, 1), params=params, constraint=constraint)
    other = engine.submit(engine.prompt(3, 2))
    engine.run()
    assert isinstance(failing.error, SamplingError) and failing.error.status == 400  # sent again it fails again
    assert not caplog.records
    assert other.error is None and len(other.value.tokens) == 12
    assert engine.answer(engine.prompt(3, 1), constraint=constraint, tokens=3).text


def test_a_constraint_that_takes_too_much_fails_alone(path: Path, backend: CpuBackend, monkeypatch) -> None:
    engine = Engine(path, backend)
    constraint = schema_constraint(engine)

    def refuse(*_: Any) -> None:
        raise MemoryError("no room for a mask")

    monkeypatch.setattr("golem_host_chat.constraints.constraint.Progress.allowed", refuse)
    failing = engine.submit(engine.prompt(3, 1), constraint=constraint)
    other = engine.submit(engine.prompt(3, 2))
    engine.run()
    assert failing.error is not None and other.error is None


@pytest.mark.parametrize("size", [7, 32, 600, 5000])
def test_masked_scores(size: int) -> None:
    random = np.random.default_rng(size)
    logits = random.standard_normal((2, size)).astype(np.float32)
    bits = random.random(size) < 0.3
    bits[size // 2] = True
    mask = np.zeros((size + 31) // 32, np.uint32)
    for id in np.flatnonzero(bits).tolist():
        mask[id >> 5] |= np.uint32(1 << (id & 31))
    assert [allows(mask, id) for id in range(size)] == bits.tolist()
    scores = Scores(logits, np.zeros((2, 1), np.float32), [0, 0])
    before = logits.copy()
    found = masked(scores, 1, mask)
    expected = np.where(bits, logits[1], -np.inf)
    np.testing.assert_array_equal(found.logits, expected[None])
    np.testing.assert_array_equal(logits, before)
    assert found.best == [int(expected.argmax())]
    blocks = [expected[at : at + 512].max() for at in range(0, size, 512)]
    np.testing.assert_array_equal(found.maxima, [blocks])
    largest = found.best[0]
    lowered = replace(GREEDY, logit_bias=((largest, -10.0), (int(logits[1].argmax()), 5.0)))
    for params in (*RULES[:3], lowered):
        sampler = Sampler(params, vocab_size=size)
        assert all(bits[sampler.sample(scores, 1, mask=mask)] for _ in range(20))


def test_masks_of_other_widths() -> None:
    """The model may have outputs without a token, and a token no output."""
    logits = np.arange(40, dtype=np.float32)[None]
    scores = Scores(logits, logits.max(keepdims=True), [39])
    assert masked(scores, 0, np.array([1 << 5], np.uint32)).best == [5]
    assert masked(scores, 0, np.array([1 << 5, 0, 1], np.uint32)).best == [5]
    with pytest.raises(SamplingError, match="no output"):
        masked(scores, 0, np.array([0, 0, 1], np.uint32))


def test_every_kind_of_vocabulary(tmp_path: Path, backend: CpuBackend) -> None:
    for architecture in ("qwen3", "gemma3", "gemma4"):
        made = tiny_gguf(tmp_path / f"{architecture}.gguf", architecture, quantization="Q8_0", context=512, window=8)
        engine = Engine(made, backend, context=512)
        answer = engine.answer(engine.prompt(4, 1), params=HOT, tokens=None, constraint=schema_constraint(engine))
        assert fits(answer.text), architecture


def test_a_vocabulary_that_no_answer_can_end_in(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "endless.gguf", "llama")
    with open_gguf(path) as gguf:
        tokenizer = tokenizer_from_gguf(gguf)
    tokenizer.vocab.__dict__["_endings"] = replace(tokenizer.vocab._endings, ends=frozenset())
    with pytest.raises(UncompiledError, match="no token that ends an answer"):
        ConstraintVocabulary(tokenizer).prepared()


def test_pieces_are_the_pieces_of_all_tokens(path: Path) -> None:
    with open_gguf(path) as gguf:
        tokenizer = tokenizer_from_gguf(gguf)
        for special in (True, False):
            expected = [tokenizer.piece(id, special=special) for id in range(len(tokenizer.vocab))]
            assert list(tokenizer.pieces(special=special)) == expected
