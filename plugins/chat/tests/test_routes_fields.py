"""Every field of README's tables does what its table says: honoured, refused or ignored."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from golem_host.http.ollama_options import KNOWN
from golem_host_chat.routes import unserved
from scripted_chat import Served, serving

README = Path(__file__).parents[1] / "README.md"
USER = [{"role": "user", "content": "Hi"}]

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": USER},
    "/v1/completions": {"prompt": "Hi"},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": USER},
    "/api/chat": {"model": "scripted", "messages": USER, "stream": False},
    "/api/generate": {"model": "scripted", "prompt": "Hi", "stream": False},
}

# A value that asks for something, for every refused field.
ASKING: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": "required",
    "functions": [{"name": "f"}],
    "function_call": {"name": "f"},
    "reasoning_format": "deepseek",
    "reasoning_budget_tokens": 100,
    "thinking_budget_tokens": 0,
    "suffix": "end",
    "lora": [{"id": 0, "scale": 1.0}],
    "n_keep": -1,
    "n_discard": 10,
    "n_cache_reuse": 256,
    "return_tokens": True,
    "verbose": True,
    "response_fields": ["content"],
    "_debug_render_only": True,
    "template": "{{ .Prompt }}",
    "images": ["aGk="],
    "width": 512,
    "height": 512,
    "steps": 4,
    "tfs_z": 0.5,
    "penalize_newline": False,
}
# The same where other fields have these names.
ASKING_OF: dict[str, dict[str, Any]] = {
    "/v1/responses": {
        "previous_response_id": "resp_1",
        "store": True,
        "conversation": "conv_1",
        "background": True,
        "prompt": {"id": "pmpt_1"},
        "context_management": [{"type": "compaction"}],
        "truncation": "auto",
        "n": 2,
        "n_cmpl": 2,
        "logprobs": True,
        "n_probs": 2,
        "post_sampling_probs": True,
        "return_progress": True,
        "timings_per_token": True,
        "reasoning_control": True,
    },
    "/v1/messages": {
        "container": "c",
        "mcp_servers": [{"type": "url"}],
        "context_management": {"edits": []},
        "output_format": {"type": "json_schema"},
        "n": 2,
        "n_cmpl": 2,
        "logprobs": True,
        "top_logprobs": 2,
        "n_probs": 2,
        "post_sampling_probs": True,
        "return_progress": True,
        "timings_per_token": True,
        "reasoning_control": True,
    },
}
WRONG_TYPES: tuple[Any, ...] = ({}, [], "x", 1.5, True)
"""One of these is a wrong type for every field that is honoured."""


def table(title: str) -> list[list[str]]:
    """The rows of the first table under a heading."""
    section = README.read_text(encoding="utf-8").split(f"### {title}\n", 1)[1].split("\n#", 1)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def neutral_values(note: str) -> list[Any]:
    """The values a note lists as asking for nothing."""
    found = re.search(r"nothing: (.*)", note)
    return [json.loads(text) for text in re.findall(r"`([^`]*)`", found[1])] if found else []


def two_routes(title: str) -> list[tuple[str, str, str, str]]:
    """(route, field, how it is handled, note) of a table with a column for each of the two routes in its title."""
    first, second = re.findall(r"`([^`]*)`", title)
    rows = []
    for name, one, two, note in table(title):
        rows += [(first, name.strip("`"), one, note), (second, name.strip("`"), two, note)]
    return rows


ROWS = [
    *two_routes("`/v1/chat/completions` and `/v1/completions`"),
    *((route, name.strip("`"), how, note) for route in ASKING_OF for name, how, note in table(f"`{route}`")),
    *two_routes("`/api/chat` and `/api/generate`"),
    *(("options", name.strip("`"), how, note) for name, how, note in table("Ollama's `options`")),
]


async def post(served: Served, route: str, name: str, value: Any) -> tuple[int, str]:
    """Status and error text of a request with one field more."""
    if route == "options":
        response = await served.post("/api/chat", **BODIES["/api/chat"], options={name: value})
    else:
        response = await served.post(route, **{**BODIES[route], name: value})
    error = response.json()["error"] if response.status_code != 200 else ""
    return response.status_code, error if isinstance(error, str) else error["message"]


def run(folder: Path, scenario: Any) -> None:
    async def whole() -> None:
        async with serving(folder) as served:
            await scenario(served)

    asyncio.run(whole())


def rows(how: str) -> list[tuple[str, str, str]]:
    found = [(route, name, note) for route, name, handled, note in ROWS if handled == how]
    assert len(found) > 10
    return found


def test_every_row_says_how() -> None:
    assert {how for _, _, how, _ in ROWS} == {"honoured", "refused", "ignored"}
    assert len({(route, name) for route, name, _, _ in ROWS}) == len(ROWS)


def test_refused_fields(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for route, name, _ in rows("refused"):
            status, error = await post(served, route, name, ASKING_OF.get(route, ASKING)[name])
            assert status == 400, (route, name)
            assert f"{name}'" in error, (route, name, error)
        assert served.model.asked == []
        for route, name, note in rows("refused"):
            for value in (None, *neutral_values(note)):
                status, error = await post(served, route, name, value)
                assert status == 200, (route, name, value, error)

    run(tmp_path, scenario)


def test_ignored_fields(tmp_path: Path) -> None:
    """Whatever they hold nothing changes; only Ollama's options and `shift` have their types checked."""

    async def scenario(served: Served) -> None:
        for route, name, _ in rows("ignored"):
            if route == "options" or name == "shift":
                values: tuple[Any, ...] = (True, 1)
            else:
                values = (*WRONG_TYPES, ASKING.get(name, 3))
            statuses = [(await post(served, route, name, value))[0] for value in values]
            if route == "options" or name == "shift":
                assert 200 in statuses, (route, name)
            else:
                assert set(statuses) == {200}, (route, name)
        plain = {generation.max_tokens for generation in served.model.asked}
        assert len(plain) <= 2  # none, and what is left of the slot on Ollama's side

    run(tmp_path, scenario)


def test_honoured_fields_check_their_types(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for route, name, _ in rows("honoured"):
            answers = [await post(served, route, name, value) for value in WRONG_TYPES]
            refused = [error for status, error in answers if status == 400]
            assert {status for status, _ in answers} <= {200, 400, 404}, (route, name, answers)
            assert refused, (route, name)
            assert any(name in error for error in refused), (route, name, refused)

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("route", "groups"),
    [
        ("/v1/chat/completions", (unserved.CHAT, unserved.V1)),
        ("/v1/completions", (unserved.V1,)),
        ("/api/chat", (unserved.OLLAMA,)),
        ("/api/generate", (unserved.OLLAMA_GENERATE, unserved.OLLAMA)),
    ],
)
def test_tables_list_what_the_code_refuses(route: str, groups: Any) -> None:
    in_code = {field.name for group in groups for field in group}
    in_table = {name for where, name, _ in rows("refused") if where == route}
    assert in_table == in_code


def test_option_table_lists_the_known_options() -> None:
    assert {name for route, name, _, _ in ROWS if route == "options"} == KNOWN
