"""LiteLLM, LangChain and the `llm` command, unmodified, against a real server process with a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from golem_host.testing.tiny import tiny_gguf
from server_process import server
from tool_template import TOOL_TEMPLATE

PROGRAMS = Path(__file__).parents[3] / "tests" / "clients" / "programs.py"


@pytest.mark.slow
def test_every_program_gets_the_whole_answer_and_its_calls(clients_python: str, tmp_path: Path) -> None:
    model = tiny_gguf(tmp_path / "tiny.gguf", "llama", metadata={"tokenizer.chat_template": TOOL_TEMPLATE})
    script = Path(__file__).with_name("scripted_server.py")
    with server(str(script), str(model), "addr=127.0.0.1:0", f"model-folder={tmp_path}", "any-model=false") as clients:
        ran = subprocess.run(
            [clients_python, str(PROGRAMS), clients.url, "scripted"],
            env={**os.environ, "no_proxy": "127.0.0.1", "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert (len(found["said"]), len(found["called"])) == (5, 4)
    for program, got in found["said"].items():
        assert got == ["Hello there.", "stop", "Hello there."], program
    for program, got in found["called"].items():
        assert got == [[["get_weather", {"city": city}] for city in ("Oslo", "Köln")]] * 2, program


@pytest.fixture
def clients_python() -> str:
    """The interpreter that has these programs."""
    python = os.environ.get("GOLEM_CLIENTS_PYTHON")
    if not python:
        pytest.skip("needs client programs: set GOLEM_CLIENTS_PYTHON to an interpreter that has the `clients` extra")
    return python
