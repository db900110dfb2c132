"""laya's own HTTP server over a checkpoint, without a socket.

Run by the oracle interpreter (laya, transformers, torch, fastapi). A request (serving.py): `model` (directory of a
checkpoint), `posts` (list of [path, body], a body as text or as the object to send). The answer's `answers` lists
[status, body] of each. Requests go to the checkpoint itself: there is no routing between several. With `rows`, a list
of [ids, positions of the masks, kind of question], `decisions` lists [raw logits, probability to act] of each instead.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from fastapi.testclient import TestClient
from laya.serve import create_app
from serving import serve

import laya

_clients: dict[str, TestClient] = {}


class OneCheckpoint:
    """What the server asks of a `laya.Router`."""

    loaded = ("checkpoint",)

    def __init__(self, folder: str) -> None:
        self._agent = laya.Agent(folder, device="cpu")

    def predict(self, state: Any, questions: Any, *, model: Any = None, **controls: Any) -> dict[str, Any]:
        for hint in ("task", "lang", "lang_guess"):
            controls.pop(hint, None)
        return self._agent.predict(state, questions, **controls)


def decide(folder: str, rows: list[Any]) -> list[Any]:
    model = laya.Agent(folder, device="cpu").model
    decisions = []
    for ids, markers, kind in rows:
        with torch.no_grad():
            tokens, places = torch.tensor([ids]), torch.tensor([markers])
            kinds = torch.tensor([kind])
            logits, act = model(tokens, torch.ones_like(tokens), places, torch.ones_like(places).bool(), kinds)
        decisions.append([logits[0].tolist(), act.softmax(-1)[0, 0].item()])
    return decisions


def answer(request: dict[str, Any]) -> dict[str, Any]:
    folder = request["model"]
    if "rows" in request:
        return {"decisions": decide(folder, request["rows"])}
    if folder not in _clients:
        _clients[folder] = TestClient(create_app(router=OneCheckpoint(folder)), raise_server_exceptions=False)
    answers = []
    for path, body in request["posts"]:
        text = body if isinstance(body, str) else json.dumps(body)
        found = _clients[folder].post(path, content=text.encode("utf-8", "surrogatepass"))
        answers.append([found.status_code, found.json()])
    return {"answers": answers}


if __name__ == "__main__":
    serve(answer)
