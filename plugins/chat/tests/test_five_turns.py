"""Conversations that are edited, left and taken up again: what is kept is counted rightly, and never changes an answer.

A family that keeps every position, one with sliding windows, one with recurrent states, and all of these in one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host_chat.generation import Completion
from golem_host_chat.sampling_params import SamplingParams
from test_engine import Engine, tiny

MESSAGE, ANSWER = 30, 6
"""Tokens of a user's message and of an answer."""

Make = Callable[..., Engine]


@pytest.fixture(params=["qwen3", "gemma3", "qwen35", "recurrent"])
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def make(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes an engine with rings of 16 cells for windows of 8, one slot, and a context of 256."""
    backend = CpuBackend(threads=2)
    monkeypatch.setattr(backend, "widest_pass", 8)
    path = tiny(tmp_path, family)
    return lambda **options: Engine(path, backend, **{"slots": 1, "context": 256, **options})


def ask(engine: Engine, prompt: list[int]) -> Completion:
    """An answer of `ANSWER` tokens; a slot then holds the prompt and all of them but the last."""
    ends = tuple((token, -np.inf) for token in engine.tokenizer.vocab.end_of_generation)
    return engine.answer(prompt, tokens=ANSWER, params=SamplingParams(temperature=0.0, logit_bias=ends))


class Talk:
    """A conversation with one engine; every answer is compared with that of an engine which never saw another."""

    def __init__(self, make: Make, **options: Any) -> None:
        self.engine, self._fresh = make(**options), partial(make, **options)
        self._seed = 0

    def message(self, length: int = MESSAGE) -> list[int]:
        self._seed += 1
        return self.engine.prompt(length, self._seed)

    def ask(self, prompt: list[int]) -> tuple[list[int], int]:
        """The conversation with its answer, and how many positions were not read again."""
        found, expected = ask(self.engine, prompt), ask(self._fresh(), prompt)
        assert expected.cached_tokens == 0
        assert found.tokens == expected.tokens
        return [*prompt, *found.tokens], found.cached_tokens


def test_five_turns_with_edits_in_the_middle(make: Make, family: str) -> None:
    talk = Talk(make)
    forgets = family != "qwen3"
    first, cached = talk.ask(talk.message())
    assert cached == 0
    second, cached = talk.ask([*first, *talk.message()])
    assert cached == len(first) - 1 == 35
    third, cached = talk.ask([*second, *talk.message()])
    assert cached == len(second) - 1 == 71
    # The third message anew: its window and its states are those at the end of the second answer.
    third, cached = talk.ask([*second, *talk.message()])
    assert cached == (71 if forgets else 72)
    fourth, cached = talk.ask([*third, *talk.message()])
    assert cached == len(third) - 1 == 107
    _, cached = talk.ask([*fourth, *talk.message()])
    assert cached == len(fourth) - 1 == 143
    # The second message anew, from the end of the first answer on; then a part of it, twice.
    message = talk.message()
    second, cached = talk.ask([*first, *message])
    assert cached == (35 if forgets else 36)
    for kept in (35 if forgets else 52, 52):
        second, cached = talk.ask([*first, *message[:16], *talk.message()])
        assert cached == kept
    third, cached = talk.ask([*second, *talk.message()])
    assert cached == len(second) - 1
    _, cached = talk.ask(talk.message())
    assert cached == 0


def test_an_answer_drawn_again(make: Make, family: str) -> None:
    """The last token of the prompt is read again; where that needs a copy, it is there the third time."""
    talk = Talk(make)
    prompt = talk.message(60)
    counts = [talk.ask(prompt)[1] for _ in range(3)]
    assert counts == ([0, 59, 59] if family in ("qwen3", "gemma3") else [0, 0, 59])


def test_a_long_prompt_has_a_checkpoint_every_1024_positions(make: Make, family: str) -> None:
    talk = Talk(make, context=4096)
    prompt = talk.message(2300)
    for edit, kept in ((2200, 2048), (1500, 1024), (1000, 0)):
        _, cached = talk.ask(prompt)
        _, cached = talk.ask([*prompt[:edit], *talk.message()])
        assert cached == (kept if family != "qwen3" else edit)
        talk.engine.stepper.clear()


def test_a_conversation_that_lost_its_slot_is_taken_up_again(make: Make, family: str) -> None:
    talk = Talk(make, cache_bytes=None)
    first, _ = talk.ask(talk.message(90))
    first, _ = talk.ask([*first, *talk.message()])
    other, cached = talk.ask(talk.message(70))
    assert cached == 0 and len(talk.engine.stepper._prompts.entries) == 1
    for _ in range(2):
        first, cached = talk.ask([*first, *talk.message(20)])
        assert cached == len(first) - ANSWER - 20 - 1
        other, cached = talk.ask([*other, *talk.message(10)])
        assert cached == len(other) - ANSWER - 10 - 1
    # An earlier turn of what was put away: where its tokens part, or at the checkpoint before.
    _, cached = talk.ask([*first[:110], *talk.message(20)])
    assert cached == (110 if family == "qwen3" else 95)
    assert [entry.tokens for entry in talk.engine.stepper._prompts.entries] == [first[:-1], other[:-1]]


def test_checkpoints_are_no_more_than_asked_for(make: Make, family: str) -> None:
    for most in (0, 1, 3):
        talk = Talk(make, checkpoints=most)
        conversation = talk.message()
        for _ in range(5):
            conversation, _ = talk.ask([*conversation, *talk.message(20)])
            (slot,) = talk.engine.stepper._slots
            assert len(slot.copies) <= (most if family != "qwen3" else 0)
            assert [copy.position for copy in slot.copies] == sorted({copy.position for copy in slot.copies})


def test_kept_conversations_stay_within_their_limit(make: Make, family: str) -> None:
    """The oldest go; what is larger than the limit, or too short, or there already, is not copied."""
    probe = Talk(make, cache_bytes=None)
    for _ in range(2):
        probe.ask(probe.message(90))
    (entry,) = probe.engine.stepper._prompts.entries
    talk = Talk(make, cache_bytes=2 * entry.nbytes + entry.nbytes // 2)
    prompts = talk.engine.stepper._prompts
    conversations = []
    for count in range(5):
        conversation, _ = talk.ask(talk.message(90))
        conversations.append(conversation[:-1])
        assert len(prompts.entries) == min(count, 2)
        assert sum(each.nbytes for each in prompts.entries) <= 2.5 * entry.nbytes
    assert [each.tokens for each in prompts.entries] == conversations[2:4]
    talk.ask(talk.message(40))
    talk.ask(talk.message(90))  # the short one is not kept
    assert [each.tokens for each in prompts.entries] == conversations[3:]
    for limit in (0, entry.nbytes - 1):
        small = Talk(make, cache_bytes=limit)
        for _ in range(2):
            small.ask(small.message(90))
        assert not small.engine.stepper._prompts.entries


def test_kept_conversations_leave_memory_free(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(make, cache_bytes=None)
    prompts = talk.engine.stepper._prompts
    talk.ask(talk.message(90))
    least = prompts._least_bytes(talk.engine.stepper._slots[0])
    for free, kept in ((2 * least - 1, 0), (2 * least, 1)):
        monkeypatch.setattr("golem_host_chat.prompt_cache.available_bytes", lambda free=free: free)
        talk.ask(talk.message(90))
        assert len(prompts.entries) == kept


def test_kept_conversations_are_forgotten_after_their_time(make: Make) -> None:
    talk = Talk(make, cache_bytes=None, cache_ttl=1e-9)
    first, _ = talk.ask(talk.message(90))
    talk.ask(talk.message(90))
    assert talk.ask([*first, 5])[1] == 0
    assert not talk.engine.stepper._prompts.entries


def test_without_memory_for_copies_nothing_is_lost_but_time(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(make, cache_bytes=None)

    def full(*_: Any) -> Any:
        raise MemoryError

    first, _ = talk.ask(talk.message(90))
    monkeypatch.setattr(type(talk.engine.passes.memory), "_copy", full)
    second, cached = talk.ask([*first, *talk.message()])
    assert cached == len(first) - 1
    talk.ask(talk.message(90))
    assert not talk.engine.stepper._prompts.entries
    assert talk.ask([*second, *talk.message()])[1] == 0


def test_a_slot_that_could_not_be_filled_is_empty(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(make, cache_bytes=None)
    first, _ = talk.ask(talk.message(90))
    talk.ask(talk.message(90))
    with monkeypatch.context() as broken:
        broken.setattr(talk.engine.passes.memory, "restore", lambda *_: 1 / 0)
        lost = talk.engine.submit([*first, 5])
        talk.engine.run()
        assert lost.error is not None
    assert talk.engine.stepper._slots[0].tokens == []
    talk.ask([*first, 5])
