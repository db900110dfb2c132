"""laya's remote client and ollama-python's `systemone`, unmodified, against the real command beside a chat model."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import ollama
import pytest

from golem_host.testing.tiny import tiny_gguf
from golem_host.testing.tiny_laya import tiny_laya_directory
from laya_checks import QUESTIONS, STATE
from server_process import Clients, server

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """A chat model and two checkpoints in one process."""
    folder = tmp_path_factory.mktemp("clients")
    with server(
        *("-P", "-m", "golem_host", "--enable", "chat,laya", "--addr", "127.0.0.1:0", "--model-folder", str(folder)),
        *("--chat-model", f"talker={tiny_gguf(folder / 'tiny.gguf', context=64)}"),
        *("--laya-model", f"laya={tiny_laya_directory(folder / 'one')}"),
        *("--laya-model", f"multilingual={tiny_laya_directory(folder / 'two', seed=2)}"),
    ) as found:
        yield found


def test_ollama(clients: Clients) -> None:
    questions = {
        "team": ollama.SystemOneChoiceQuestion(
            instructions="Which team?", criteria={"billing": "money", "sales": None}
        ),
        "urgency": ollama.SystemOneScoreQuestion(instructions="How urgent?", criteria=["low", "mid", "high"]),
        "bill": ollama.SystemOneNoulQuestion(instructions="Is it about billing?", criteria={"true": "yes"}),
    }
    answer = clients.ollama.systemone("laya", STATE, questions, keep_alive="5m")
    assert answer.usage.input_tokens > 0
    team, urgency, bill = (answer.answers[name] for name in questions)
    assert isinstance(team, ollama.SystemOneChoiceAnswer) and team.probabilities.keys() == {"billing", "sales"}
    assert isinstance(urgency, ollama.SystemOneScoreAnswer) and urgency.legend == {"0": "low", "1": "mid", "2": "high"}
    assert isinstance(bill, ollama.SystemOneNoulAnswer) and 0 < bill.noul < 1
    other = clients.ollama.systemone("multilingual", STATE, questions)
    assert other.answers != answer.answers
    with pytest.raises(ollama.ResponseError, match="too many questions"):
        clients.ollama.systemone("laya", STATE, {f"{at}": questions["bill"] for at in range(65)})


def test_beside_chat(clients: Clients) -> None:
    answer = clients.openai.chat.completions.create(
        model="talker", messages=[{"role": "user", "content": "hello"}], max_completion_tokens=4
    )
    assert answer.choices[0].finish_reason in ("stop", "length")


@pytest.mark.oracle
def test_laya(clients: Clients, oracle_python: str) -> None:
    asked = {"state": STATE, "questions": QUESTIONS}
    calls = [
        asked,
        {**asked, "model": "laya", "min_confidence": 0.5},
        {**asked, "model": "ml"},
        {**asked, "state": None},
    ]
    calls.append({**asked, "questions": {"q": {"type": "x", "instructions": "i"}}})
    done = subprocess.run(
        [oracle_python, str(ROOT / "tests" / "oracle" / "laya_client.py"), clients.url],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=True,
    )
    default, english, multilingual, stateless, unknown = json.loads(done.stdout)
    assert default["answers"]["team"]["probabilities"] == english["answers"]["team"]["probabilities"]
    assert {answer["abstention"] for answer in english["answers"].values()} <= {"passed", "abstained"}
    assert multilingual["answers"] != default["answers"]
    assert stateless == ["invalid_request", "'state' is required"]
    assert unknown == ["invalid_request", "question 'q': unknown type 'x'; use one of ['choice', 'noul', 'score']"]
