"""Questions for tests, and the plugin in process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from golem_host.host import Host
from golem_host.plugins import load
from golem_host.testing.inprocess import running, settings_of

Scenario = Callable[[Host, httpx.AsyncClient], Coroutine[Any, Any, Any]]
Post = tuple[str, Any]

QUESTIONS: dict[str, Any] = {
    "team": {
        "type": "choice",
        "instructions": "Which team?",
        "criteria": {"billing": "money", "support": None, "sales": "deals"},
    },
    "urgency": {"type": "score", "instructions": "How urgent?", "criteria": ["low", "mid", "high"]},
    "bill": {"type": "noul", "instructions": "Is it about billing?"},
}
STATE = {"document": "I was charged twice. Please fix this ASAP."}


def serve(folder: Path, scenario: Scenario, *models: str, **settings: str) -> Any:
    """What `scenario` gives with checkpoints of `folder` served."""
    plugins = load(["laya"])

    async def whole() -> Any:
        given = settings_of(folder, {"laya-model": models, **settings}, plugins.settings())
        async with running(given, plugins) as (host, client):
            return await scenario(host, client)

    return asyncio.run(whole())


async def post(client: httpx.AsyncClient, path: str, body: Any) -> tuple[int, Any]:
    """Status and body of the answer; a body is text or what is sent as JSON."""
    if isinstance(body, str):
        answer = await client.post(path, content=body.encode("utf-8", "surrogatepass"))
    else:
        answer = await client.post(path, json=body)
    return answer.status_code, answer.json()


def answers_of(folder: Path, model: str, posts: list[Post]) -> list[tuple[int, Any]]:
    """What a served checkpoint answers to requests one after the other."""

    async def scenario(host: Host, client: httpx.AsyncClient) -> list[tuple[int, Any]]:
        return [await post(client, *each) for each in posts]

    return serve(folder, scenario, model)


def random_request(rng: np.random.Generator) -> dict[str, Any]:
    """A request with a state of any shape and length, and up to five questions of all kinds."""
    words = "the invoice was charged twice refund please now urgent order 4711 naïve 日本 [MASK] [SEP]".split()  # noqa: SIM905

    def text(most: int) -> str:
        return " ".join(rng.choice(words, rng.integers(1, most + 1)))

    def described(most: int) -> Any:
        return [None, "", text(most), {"why": text(3), "n": 3}, [1, text(2)], 7, False][rng.integers(7)]

    turns = [{"role": "user", "content": text(12)} for _ in range(rng.integers(1, 9))]
    mail = {"subject": text(5), "body": text(60), "tags": [1, None, True, 2.5]}
    state: Any = [text(80), mail, turns, 42, ""][rng.integers(5)]
    questions: dict[str, Any] = {}
    for number in range(rng.integers(1, 6)):
        kind = ["choice", "score", "noul"][rng.integers(3)]
        question: dict[str, Any] = {"type": kind, "instructions": [text(12), {"ask": text(4)}, 5][rng.integers(3)]}
        count = int([1, 2, 3, 5, 6, 10, 11, 16][rng.integers(8)])
        if kind == "choice":
            labels = [f"{text(2)} {each}" for each in range(count)]
            question["criteria"] = {label: described(20) for label in labels} if rng.integers(2) else [*labels[1:], 8]
        elif kind == "score":
            question["criteria"] = [described(10) or text(4) for _ in range(count)]
        else:
            count = 2
            if rng.integers(2):
                question["criteria"] = {["true", "FALSE"][rng.integers(2)]: described(10)}
            if rng.integers(2):
                question["labels"] = {"false": " nay", "true": "yea"}
        if rng.integers(3) == 0:
            question["option_order"] = rng.permutation(count).tolist()
        questions[f"q {number}"] = question
    controls = [{}, {}, {"max_len": 200, "head_max_len": 90}, {"min_confidence": 0.5},
                {"min_confidence": {"choice:3-5": 0.4, "default": 0.6}}, {"task": "x", "model": "jev-1"}]  # fmt: skip
    return {"state": state, "questions": questions, **controls[rng.integers(len(controls))]}
