"""Answers and refusals over HTTP against laya's own package and server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.testing.tiny_laya import tiny_laya_directory
from golem_host_laya.checkpoint import open_checkpoint
from golem_host_laya.passes import Passes
from golem_host_laya.questions import Kind
from golem_host_laya.sequences import Row
from laya_checks import QUESTIONS, STATE, Post, answers_of, random_request
from oracle_client import Oracle

pytestmark = pytest.mark.oracle

NEW_ROPE: dict[str, Any] = {
    "global_rope_theta": None,
    "local_rope_theta": None,
    "rope_parameters": {
        "full_attention": {"rope_theta": 20000.0, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 500.0, "rope_type": "default"},
    },
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
}
CHECKPOINTS: dict[str, dict[str, Any]] = {
    "as published": {},
    "new rope": {"encoder": NEW_ROPE, "seed": 2},
    "one rope": {"encoder": {"local_rope_theta": 160000.0, "local_attention": 4}, "seed": 3},
    "no head": {"config": {"head_layers": 0, "act_costs": None, "temperature_by_options": None}, "seed": 4},
    "bfloat": {"dtype": "BF16", "seed": 5, "config": {"temperature": [1.0, "x", 9.0]}},
    "half": {"dtype": "F16", "seed": 6, "config": {"temperature": [True, 0.1, 1.3], "head_layers": 1}},
}


def alike(found: Any, expected: Any, units: float = 1) -> None:
    """Equal, numbers but for a unit of the last of four decimals: where float sums of another order round apart.

    Jev's confidence is made of rounded probabilities, of which it multiplies one by up to 4.
    """
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            alike(found[key], expected[key], 4 if key == "x_jev_confidence" else units)
    elif isinstance(expected, list):
        for ours, theirs in zip(found, expected, strict=True):
            alike(ours, theirs)
    elif isinstance(expected, float):
        assert abs(found - expected) < (units + 0.5) * 1e-4
    else:
        assert found == expected


def numbers(value: Any) -> list[float]:
    """Every number with decimals in an answer."""
    if isinstance(value, dict | list):
        return [each for item in (value.values() if isinstance(value, dict) else value) for each in numbers(item)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_logits(oracle: Oracle, tmp_path: Path, name: str) -> None:
    """Raw logits and what the act head says, at lengths around the window's edges and the tiles of attention."""
    folder = tiny_laya_directory(tmp_path / "tiny", **CHECKPOINTS[name])
    rng = np.random.default_rng(11)
    lengths = [6, 7, 9, 10, 11, 47, 48, 49, 95, 96, 97, 130, 256]
    rows = [
        Row(rng.integers(5, 261, length).tolist(), [1, *rng.choice(length - 2, 3, replace=False) + 2], 0, 4, None)
        for length in lengths
    ]
    kinds = [Kind(at % 3) for at in range(len(rows))]
    with open_checkpoint(folder) as checkpoint:
        passes = Passes(checkpoint, CpuBackend(threads=2), widths=(1024,))
        passes.prepare(lambda _: None)
        found = passes.run(rows, kinds)
        passes.close()
    asked = [[row.ids, list(map(int, row.markers)), int(kind)] for row, kind in zip(rows, kinds, strict=True)]
    expected = oracle.laya_logits(folder, asked)
    for ours, (logits, act) in zip(found, expected, strict=True):
        # sums of a few hundred terms in another order, through four to six layers
        np.testing.assert_allclose(ours.logits, logits, rtol=0, atol=1e-4)
        assert abs(ours.act - act) < 1e-4


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_answers(oracle: Oracle, tmp_path: Path, name: str) -> None:
    """Random requests: texts longer than the window and than the budgets, all kinds of questions and options."""
    folder = tiny_laya_directory(tmp_path / "tiny", **CHECKPOINTS[name])
    rng = np.random.default_rng(len(name))
    posts: list[Post] = [("/v1/systemone", {"state": STATE, "questions": QUESTIONS})]
    posts += [("/v1/systemone", random_request(rng)) for _ in range(20)]
    states = [random_request(rng)["state"] for _ in range(3)]
    posts.append(("/v1/systemone/batch", {"states": states, "questions": QUESTIONS, "batch_size": 2}))
    expected = oracle.laya(folder, posts)
    found = answers_of(tmp_path, "tiny", posts)
    ours_all, theirs_all = [], []
    for (status, body), (ours, answer) in zip(expected, found, strict=True):
        assert (ours, status) == (200, 200), (body, answer)
        # laya puts what the abstention gate says before its confidence for Jev
        for answers in (body, answer):
            for each in answers.get("answers", {}).values():
                each.update({"x_jev_confidence": each.pop("x_jev_confidence", None)})
        alike(answer, body)
        ours_all += numbers(answer)
        theirs_all += numbers(body)
    # probabilities agree to about 1e-6, so one in a hundred lies that near to a tie of rounding
    apart = sum(ours != theirs for ours, theirs in zip(ours_all, theirs_all, strict=True))
    assert apart <= 0.02 * len(ours_all)


BASE = {"state": "s", "questions": QUESTIONS}


def ask(**question: Any) -> Post:
    return "/v1/systemone", {"state": "s", "questions": {"q": question}}


def choice(criteria: Any, **more: Any) -> Post:
    return ask(type="choice", instructions="i", criteria=criteria, **more)


def noul(**more: Any) -> Post:
    return ask(type="noul", instructions="i", **more)


def body(**changes: Any) -> Post:
    return "/v1/systemone", {**BASE, **changes}


MANY = {str(at): None for at in range(64)}
REFUSED: list[Post] = [
    ("/v1/systemone", ""),
    ("/v1/systemone", "{"),
    ("/v1/systemone", "[" * 100_000),
    ("/v1/systemone", "[1]"),
    ("/v1/systemone", "null"),
    ("/v1/systemone", {"state": "s"}),
    ("/v1/systemone", {"questions": QUESTIONS}),
    body(state=None),
    body(questions=[]),
    body(questions=None),
    body(questions={str(at): QUESTIONS["bill"] for at in range(65)}),
    body(state="x" * 50_001),
    body(state={"a": "x" * 30_000, "b": ["y" * 30_000]}),
    body(state=[7, "x" * 50_001]),
    body(state=["é"] * 20_000),
    body(hooks=[1], hooks_raise=True),
    ("/v1/systemone", '{"state": "\\ud800", "questions": {}}'),
    ("/v1/systemone", '{"state": "s", "\\udc00": 1, "questions": {}}'),
    body(max_len="5"),
    body(max_len=True),
    body(max_len=0),
    body(head_max_len=-1),
    body(head_max_len=8193),
    body(lang=1),
    body(lang_guess=["de"]),
    body(min_confidence=True),
    body(min_confidence=1.5),
    body(min_confidence={}),
    body(min_confidence={"choice": 0.5}),
    body(min_confidence={"default": "x"}),
    body(questions={"": QUESTIONS["bill"]}),
    body(questions={" ": 5}),
    body(questions={"q": 5}),
    body(questions={"q": None}),
    ask(),
    ask(type=None, instructions="i"),
    ask(type="bool", instructions="i"),
    ask(type=["choice"], instructions="i"),
    ask(type="noul"),
    ask(type="noul", instructions=None),
    ask(type="noul", instructions="  "),
    ask(type="noul", instructions=[]),
    choice(None),
    choice("a"),
    choice([]),
    choice({}),
    choice(["a", ["b"]]),
    choice(["a", None]),
    choice([1, 1.0]),
    choice([True, "x", 1]),
    choice(list(range(101))),
    choice(["a", "b"], labels=None),
    choice(["a", "b"], option_order=[0]),
    choice(["a", "b"], option_order=[0, 0]),
    choice(["a", "b"], option_order=[0, True]),
    choice(["a", "b"], option_order="01"),
    ask(type="score", instructions="i"),
    ask(type="score", instructions="i", criteria=[]),
    ask(type="score", instructions="i", criteria=["a", None]),
    ask(type="score", instructions="i", criteria=["a"] * 33),
    noul(criteria=[]),
    noul(criteria="x"),
    noul(criteria={"true": "a", "maybe": "b"}),
    noul(labels={}),
    noul(labels={"false": "a", "true": "a "}),
    noul(labels={"false": "", "true": "a"}),
    noul(labels={"false": 1, "true": "a"}),
    body(questions={str(at): {"type": "choice", "instructions": "i", "criteria": MANY} for at in range(9)}),
    body(questions={"q": {"type": "choice", "instructions": "i", "criteria": MANY}}, max_len=60),
    ("/v1/systemone", '{"state": "s", "questions": {"q": {"type": "choice", "instructions": "i", "criteria": [NaN]}}}'),
    ("/v1/systemone/batch", BASE),
    ("/v1/systemone/batch", {"states": [], "questions": {}}),
    ("/v1/systemone/batch", {"states": "s", "questions": {}}),
    ("/v1/systemone/batch", {"states": ["s"] * 65, "questions": {}}),
    ("/v1/systemone/batch", {"states": ["s", None], "questions": {}}),
    ("/v1/systemone/batch", {"states": ["s"], "questions": {}, "batch_size": 1.5}),
    ("/v1/systemone/batch", {"states": ["s"], "questions": {}, "batch_size": 0}),
    ("/v1/systemone/batch", {"states": ["s"], "questions": {}, "sort_by_length": 1}),
    ("/v1/systemone/batch", {"states": ["s"], "questions": {}, "diagnostics": {}}),
]
ODD: list[Post] = [
    ("/v1/systemone", {"state": "", "questions": {}}),
    ("/v1/systemone/batch", {"states": ["a", 1], "questions": {}}),
    body(state=""),
    body(foo=1, task=5, model="jev-1", lang="de", keep_alive=None),
    ("/v1/systemone", '{"state": NaN, "state": Infinity, "questions": ' + json.dumps(QUESTIONS) + "}"),
    body(questions={str(at): QUESTIONS["bill"] for at in range(64)}),
    choice(["only"]),
    choice([1, "1", 2.5, True and "x", ""]),
    choice({str(at): "same words " * 9 for at in range(40)}),
    ask(type="score", instructions=False, criteria=["one level"]),
    noul(criteria={}, labels=None),
]


def test_refusals(oracle: Oracle, tmp_path: Path) -> None:
    """Statuses and texts of bad requests, in the order in which they are looked for."""
    folder = tiny_laya_directory(tmp_path / "tiny")
    for post, theirs, ours in zip(
        REFUSED, oracle.laya(folder, REFUSED), answers_of(tmp_path, "tiny", REFUSED), strict=True
    ):
        assert theirs[0] >= 400, post
        assert ours == theirs, post


def test_odd_requests(oracle: Oracle, tmp_path: Path) -> None:
    folder = tiny_laya_directory(tmp_path / "tiny")
    for post, theirs, ours in zip(ODD, oracle.laya(folder, ODD), answers_of(tmp_path, "tiny", ODD), strict=True):
        assert (ours[0], theirs[0]) == (200, 200), (post, ours, theirs)
        alike(ours[1], theirs[1])
