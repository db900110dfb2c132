"""Answers read into reasoning, content and calls: the same however they are cut into pieces."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from golem_host_chat.formats.base import Call, Tools, Writer
from golem_host_chat.formats.cursor import Cursor, Step
from golem_host_chat.formats.thoughts import THOUGHTS
from golem_host_chat.generation import Completion, Timings
from golem_host_chat.routes.reading import PLAIN, AnswerReader, Ending, Reading

GEMMA, MISTRAL, THINK = THOUGHTS


@dataclass(frozen=True)
class Numbers:
    """Calls written `<call>[1, 2]</call>`."""

    ends_thought: bool = False
    begins_answers: bool = False
    openers: tuple[str, ...] = ("<call>", "<calling>")
    markers: tuple[str, ...] = ("<call>", "<calling>", "</call>")

    def read(self, cursor: Cursor, tools: Tools) -> Step[list[Call]]:
        yield from cursor.takes(*self.openers)
        numbers = yield from cursor.json()
        yield from cursor.expect("</call>")
        return [Call("numbers", json.dumps(numbers), id="call_1")]

    def grammar(self, write: Writer, tools: Tools, *, several: bool) -> str:
        return write.text("<call>[1]</call>")


def ending(reading: Reading, text: str, finish: str = "stop", cut: int | None = None) -> Ending:
    """The end of an answer whose text came in pieces of `cut` characters, or whole."""
    reader = AnswerReader(reading)
    completion = Completion(text, finish, None, 1, 0, 1, 0, Timings(0, 1, 0, 0, 1, 0))
    if cut is None:
        return reading.whole(completion)
    sent = [piece for at in range(0, len(text), cut) for piece in reader.push(text[at : at + cut])]
    sent += reader.finish()
    end = reader.ending(completion)
    assert reading.doubled or all(sum(map(bool, (piece.content, piece.reasoning, piece.calls))) == 1 for piece in sent)
    assert end.content == "".join(piece.content for piece in sent)
    assert end.reasoning == "".join(piece.reasoning for piece in sent)
    assert end.calls == tuple(call for piece in sent for call in piece.calls)
    return end


def read(reading: Reading, text: str) -> tuple[str, str, list[str]]:
    """Reasoning, content and calls of `text`, the same for every cut."""
    whole = ending(reading, text)
    for cut in (1, 2, 3, 5, 7, 11):
        assert ending(reading, text, cut=cut) == whole, cut
    return whole.reasoning, whole.content, [call.arguments for call in whole.calls]


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("Hello", "", "Hello"),
        (" Hello \n", "", " Hello \n"),
        ("", "", ""),
        ("\n", "", "\n"),
        ("<think>\nIt is \n\n so.\n</think>\n\nYes. \n", "It is \n\n so.", "Yes. \n"),
        (" \n<think>a</think>b", "a", "b"),
        ("<think>\n\n</think>\n\nYes", "", "Yes"),
        ("<think></think>", "", ""),
        ("<think>\nIt never ends \n", "It never ends", ""),
        ("<think>a</thin", "a</thin", ""),
        ("<thinking", "", "<thinking"),
        ("<think", "", "<think"),
        ("One writes <think>so</think>.", "", "One writes <think>so</think>."),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("<think>a<think>b</think>c", "a<think>b", "c"),
    ],
)
def test_thoughts(text: str, reasoning: str, content: str) -> None:
    assert read(Reading(THINK), text) == (reasoning, content, [])


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("It is\n</think>\n\nYes", "It is", "Yes"),
        ("\n\n</think>\n\nYes", "", "Yes"),
        ("It never ends", "It never ends", ""),
        ("<think>a</think>b", "<think>a", "b"),
    ],
)
def test_thoughts_the_prompt_opened(text: str, reasoning: str, content: str) -> None:
    assert read(Reading(THINK, opened=True), text) == (reasoning, content, [])


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<|channel>thought\nIt is.\n<channel|>Yes", "It is.", "Yes"),
        ("<|channel>thought\n<channel|>Yes", "", "Yes"),
        ("Yes <|channel>thought\nor no\n<channel|> No", "or no", "YesNo"),
        ("<|channel>thought a<channel|>b<|channel>thought c<channel|>d", "a\nc", "bd"),
        ("Yes<channel|>", "", "Yes"),
        ("<|channel>Yes", "", "Yes"),
        ("<|channel>thoug", "", "thoug"),
    ],
)
def test_thoughts_anywhere(text: str, reasoning: str, content: str) -> None:
    assert read(Reading(GEMMA), text) == (reasoning, content, [])


def test_markers_mean_nothing_to_a_model_without_them() -> None:
    text = "<think>a</think> <call>[1]</call> "
    assert read(PLAIN, text) == ("", text, [])


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ("<call>[1]</call>", "", ["[1]"]),
        ("I look.\n\n<call>[1]</call>\n<calling>[2]</call>\n", "I look.", ["[1]", "[2]"]),
        ('<call>["</call>", "\\"]"]</call>', "", ['["</call>", "\\"]"]']),
        ("a<call>[1]</call>\n b", "ab", ["[1]"]),
        ("no calls \n", "no calls \n", []),
        ("a <call", "a <call", []),
        ("a <call>[1", "a <call>[1", []),
        ("a <call>[1] ", "a <call>[1] ", []),
        ("a <call>x</call> <call>[1]</call>", "a <call>x</call>", ["[1]"]),
        ("<call>[1e999]</call>", "<call>[1e999]</call>", []),
        ("<call>[NaN]</call>", "<call>[NaN]</call>", []),
        ("<call>" + "[" * 200 + "]" * 200 + "</call>", "<call>" + "[" * 200 + "]" * 200 + "</call>", []),
        ('<call>["<call>[1]</call>', '<call>["', ["[1]"]),
    ],
)
def test_calls(text: str, content: str, calls: list[str]) -> None:
    assert read(Reading(calls=Numbers()), text) == ("", content, calls)


def test_many_beginnings_of_calls_stay_text() -> None:
    text = "<call>x" * 1000 + "<call>[1]</call>"
    assert read(Reading(calls=Numbers()), text) == ("", text, [])


def test_thoughts_that_are_content_too() -> None:
    assert read(Reading(THINK, doubled=True), "<think>\na\n</think>\n\nb") == ("a", "<think>a</think>b", [])
    assert read(Reading(THINK, doubled=True, opened=True), "a b") == ("a b", "<think>a b", [])
    assert read(Reading(THINK, doubled=True), "b") == ("", "b", [])


def test_calls_and_thoughts() -> None:
    text = "<think>\nA <call>[0]</call>?\n</think>\n\nI look. <call>[1]</call>"
    assert read(Reading(THINK, Numbers()), text) == ("A <call>[0]</call>?", "I look.", ["[1]"])
    assert read(Reading(THINK, Numbers(ends_thought=True), opened=True), "A. \n<call>[1]</call>") == ("A.", "", ["[1]"])
    cut = "A. <call>[1 </think> b"
    assert read(Reading(THINK, Numbers(ends_thought=True), opened=True), cut) == ("A. <call>[1", "b", [])


@pytest.mark.parametrize(
    ("text", "reasoning", "content", "calls"),
    [
        (" \n<call>[1]</call>", "", "", ["[1]"]),
        ("<call>[1]</call>\n<calling>[2]</call> x <call>[3]</call>", "", "x <call>[3]</call>", ["[1]", "[2]"]),
        ("<think>a</think>\n<call>[1]</call>", "a", "", ["[1]"]),
        ("I look: <call>[1]</call>", "", "I look: <call>[1]</call>", []),
        ("<call>x<call>[1]</call>", "", "<call>x<call>[1]</call>", []),
        ("<think>a</think> b <think>", "a", "b <think>", []),
        (" <cal", "", " <cal", []),
    ],
)
def test_calls_that_only_begin_answers(text: str, reasoning: str, content: str, calls: list[str]) -> None:
    assert read(Reading(THINK, Numbers(begins_answers=True)), text) == (reasoning, content, calls)


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ("a <call>[1]</call> b <call>[2]</call> c", "a", ["[1]"]),
        ("<call>x <call>[1]</call>", "<call>x", ["[1]"]),
        ("no call <cal", "no call <cal", []),
    ],
)
def test_single_calls(text: str, content: str, calls: list[str]) -> None:
    reading = Reading(calls=Numbers(), single=True)
    assert read(reading, text) == ("", content, calls)
    watch = reading.watch()
    told = [character for character in text if watch(character)]
    assert len(told) == len(calls)


def test_finish() -> None:
    reading = Reading(calls=Numbers())
    assert ending(reading, "a").finish == "stop"
    assert ending(reading, "<call>[1]</call>").finish == "tool_calls"
    assert ending(reading, "<call>[1]</call>", "length").finish == "length"
    assert ending(reading, "<call>[1]", "length").finish == "length"
