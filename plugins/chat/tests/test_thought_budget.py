"""Thoughts are closed when their tokens are spent, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.devices.device import Device
from golem_host.lanes.job import Job
from golem_host.testing.tiny import tiny_gguf
from golem_host_chat.formats.thoughts import THOUGHTS, Thought
from golem_host_chat.generation import Extras, Generation
from golem_host_chat.likelihoods import Probabilities
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.thought_budget import UNLIMITED, ThoughtBudget, ThoughtCount, ThoughtEnd
from test_runtime import load

GEMMA, _, THINK = THOUGHTS
CLOSING = tuple(range(1000, 1008))
"""Ids of tokens that spell a character of `</think>` each."""


def drawn(wanted: str | bytes, tokens: int, *, opened: bool = False, openers: tuple[str, ...] = ()) -> str:
    """What is drawn by a model that wants to say `wanted`, a byte a token, and is made to close its thoughts."""
    count = ThoughtCount(ThoughtBudget(THINK, tokens, CLOSING, openers, opened))
    wanted = wanted.encode() if isinstance(wanted, str) else wanted
    said = b""
    for byte in wanted:
        while (forced := count.forced()) is not None:
            piece = THINK.closing[forced - 1000].encode()
            count.accept(forced, piece)
            said += piece
        count.accept(byte, bytes([byte]))
        said += bytes([byte])
    return said.decode()


@pytest.mark.parametrize(
    ("wanted", "tokens", "expected"),
    [
        ("<think>abcdef</think>g", 3, "<think>abc</think>def</think>g"),
        ("<think>abcdef</think>g", 14, "<think>abcdef</think>g"),
        ("<think>abc</think>g", 20, "<think>abc</think>g"),
        ("<think>abcdef", 0, "<think></think>abcdef"),
        (" \n<think>abc", 1, " \n<think>a</think>bc"),
        ("<think>é漢字", 3, "<think>é漢</think>字"),
        ("no thought <think>abc", 0, "no thought <think>abc"),
        ("<think>ab</think>c<think>defg", 10, "<think>ab</think>c<think>defg"),
    ],
)
def test_spent_thoughts_are_closed(wanted: str, tokens: int, expected: str) -> None:
    assert drawn(wanted, tokens) == expected


def test_thoughts_the_prompt_opened() -> None:
    assert drawn("abcdef", 2, opened=True) == "ab</think>cdef"
    assert drawn("abcdef", 0, opened=True) == "</think>abcdef"
    assert drawn("a</think>bcdef", 30, opened=True) == "a</think>bcdef"


def test_a_client_ends_a_thought() -> None:
    end = ThoughtEnd()
    count = ThoughtCount(ThoughtBudget(THINK, UNLIMITED, CLOSING, opened=True, end=end))
    for byte in "é".encode():
        count.accept(byte, bytes([byte]))
        end.wanted = True
    for place, character in enumerate(THINK.closing):
        assert count.forced() == CLOSING[place]
        count.accept(CLOSING[place], character.encode())
    assert count.forced() is None
    count.accept(1, b"The answer")
    assert count.forced() is None


def test_a_call_ends_a_thought() -> None:
    assert drawn("ab<call>cdefgh", 11, opened=True, openers=("<call>",)) == "ab<call>cdefgh"
    assert drawn("ab<call>cdefgh", 11, opened=True) == "ab<call>cde</think>fgh"


def test_several_thoughts_share_what_there_is() -> None:
    thought = Thought("(", ")", strays=("(", ")"))
    count = ThoughtCount(ThoughtBudget(thought, 3, (7,)))
    said = ""
    for character in "a(bc)d(efg)h":
        if (forced := count.forced()) is not None:
            count.accept(forced, b")")
            said += ")"
        count.accept(ord(character), character.encode())
        said += character
    assert said == "a(bc)d()efg)h"


def test_on_a_lane(tmp_path: Path) -> None:
    """A model that never closes its thought; the marker is a control token."""
    device = Device("cpu", lambda: CpuBackend(threads=1))
    device.start()
    runtime = load(tiny_gguf(tmp_path / "m.gguf", "gemma4"), device)
    ids = runtime.tokenizer.vocab.ids
    closing, letter = ids[b"<|turn>"], ids[b"x"]
    thought = Thought("never", "<|turn>")
    params = SamplingParams(temperature=0.0, logit_bias=((letter, 1e9),))
    budget = ThoughtBudget(thought, 3, (closing,), opened=True)
    extras = Extras(probs=Probabilities(1))
    job = Job(Generation(prompt=[5], max_tokens=6, params=params, thoughts=budget, extras=extras))
    runtime.lane.submit(job)
    while job.end is None:
        device.submit(lambda: None).result()
    device.stop()
    assert job.value.tokens == [letter] * 3 + [closing] + [letter] * 2
    assert [token.id for token in job.value.probabilities] == job.value.tokens
