"""Whatever a body holds, the answer is an answer or a 4xx, and the next request is served."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golem_host.app import route_table
from golem_host.http.ollama_options import KNOWN
from golem_host_chat.routes import unserved
from scripted_chat import Served, serving

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.sampled_from([2**31, 2**63, 2**64, 10**400, -(2**40)])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(["user", "assistant", "system", "tool", "text", "auto", "5m", "\ud800", "<|im_end|>", "{{ x }}"])
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "developer", "tool", "User"])},
    optional={
        "content": st.text(max_size=20)
        | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=9)}), max_size=3)
        | json_values,
        "name": scalars,
        "thinking": scalars,
        "reasoning_content": scalars,
        "tool_calls": json_values
        | st.lists(
            st.fixed_dictionaries(
                {"function": st.fixed_dictionaries({"name": scalars, "arguments": json_values})},
                optional={"id": scalars, "type": scalars},
            ),
            max_size=2,
        ),
        "tool_call_id": scalars,
        "images": json_values,
    },
)
messages = st.lists(message, max_size=6) | st.lists(json_values, max_size=3) | json_values

texts = st.sampled_from(["input_text", "output_text", "text", "refusal", "reasoning_text", "summary_text"])
parts = st.lists(st.fixed_dictionaries({"type": texts | scalars, "text": st.text(max_size=9)}), max_size=3)
item = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning", "function_call", "function_call_output"]) | scalars},
    optional={
        "role": st.sampled_from(["user", "assistant", "developer"]) | scalars,
        **{name: st.text(max_size=9) | parts | json_values for name in ("content", "summary", "output")},
        **{name: st.sampled_from(["a", "b"]) | scalars for name in ("call_id", "name", "arguments")},
    },
)
block = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "tool_result"]) | scalars},
    optional={
        **{name: st.sampled_from(["a", "b"]) | scalars for name in ("id", "tool_use_id", "name", "text", "thinking")},
        "input": json_values,
        "content": st.text(max_size=9) | parts | json_values,
    },
)
turn = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"]) | scalars},
    optional={"content": st.text(max_size=9) | st.lists(block, max_size=3) | json_values},
)

SAMPLING = (
    *("temperature", "top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc_probability", "min_keep", "samplers"),
    *("repeat_penalty", "repeat_last_n", "frequency_penalty", "presence_penalty", "seed", "logit_bias", "stop"),
)
REQUEST = (
    "max_tokens",
    "max_completion_tokens",
    "n_predict",
    "n",
    "n_cmpl",
    "stream",
    "stream_options",
    "cache_prompt",
)
CHAT = ("chat_template_kwargs", "reasoning_effort", "reasoning", "add_generation_prompt", "continue_final_message")
OLLAMA = ("stream", "truncate", "shift", "think", "keep_alive", "system", "raw", "context")
UNSERVED = tuple({field.name for group in (unserved.V1, unserved.CHAT, unserved.OLLAMA) for field in group})


def some_of(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), json_values, max_size=4)


V1_FIELDS = some_of(*SAMPLING, *REQUEST, *CHAT, *UNSERVED, "keep_alive", "echo", "ignore_eos", "model")
OLLAMA_FIELDS = some_of(*OLLAMA, *UNSERVED)
TRANSLATED_FIELDS = some_of(
    *(
        *SAMPLING,
        *REQUEST,
        *CHAT,
        "model",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "text",
        "include",
        "metadata",
    ),
    *("store", "instructions", "max_output_tokens", "system", "stop_sequences", "thinking", "output_config"),
)
OPTIONS = some_of(*sorted(KNOWN), "other") | json_values

requests = st.one_of(
    st.tuples(
        st.sampled_from(["/v1/chat/completions", "/v1/chat/completions/input_tokens", "/apply-template"]),
        st.fixed_dictionaries({"messages": messages}),
        V1_FIELDS,
    ),
    st.tuples(
        st.sampled_from(["/tokenize", "/detokenize"]),
        st.fixed_dictionaries({"content": json_values, "tokens": st.lists(scalars, max_size=4) | json_values}),
        some_of("add_special", "parse_special", "with_pieces", "model", "keep_alive"),
    ),
    st.tuples(st.just("/v1/completions"), st.fixed_dictionaries({"prompt": json_values}), V1_FIELDS),
    st.tuples(
        st.sampled_from(["/v1/responses", "/v1/responses/input_tokens"]),
        st.fixed_dictionaries({"input": st.lists(item, max_size=5) | json_values}),
        TRANSLATED_FIELDS,
    ),
    st.tuples(
        st.sampled_from(["/v1/messages", "/v1/messages/count_tokens"]),
        st.fixed_dictionaries({"messages": st.lists(turn, max_size=4) | json_values}),
        TRANSLATED_FIELDS,
    ),
    st.tuples(
        st.just("/api/chat"),
        st.fixed_dictionaries({"model": st.just("scripted"), "messages": messages}, optional={"options": OPTIONS}),
        OLLAMA_FIELDS,
    ),
    st.tuples(
        st.just("/api/generate"),
        st.fixed_dictionaries({"model": st.just("scripted"), "prompt": scalars}, optional={"options": OPTIONS}),
        OLLAMA_FIELDS,
    ),
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Served]]:
    """One host, and the loop that runs it, for all examples."""
    serves = serving(tmp_path_factory.mktemp("hostile"), architecture="qwen3")
    with asyncio.Runner() as loop:
        served = loop.run(serves.__aenter__())
        try:
            yield loop, served
        finally:
            loop.run(serves.__aexit__(None, None, None))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(batch=st.lists(requests, min_size=5, max_size=25))
def test_no_body_makes_a_500(
    host: tuple[asyncio.Runner, Served], batch: list[tuple[str, dict[str, Any], dict[str, Any]]]
) -> None:
    loop, served = host

    async def scenario() -> None:
        for path, body, more in batch:
            content = json.dumps({**body, **more})
            response = await served.client.post(path, content=content)
            assert response.status_code in (200, 400, 404), (path, content, response.text)
            if response.status_code != 200:
                assert response.json()["error"]
            elif '"error"' in response.text.replace('"error":null', ""):
                raise AssertionError((path, content, response.text))
        assert (await served.post("/v1/completions", prompt="x")).status_code == 200

    loop.run(scenario())


NESTED = 100_000
HOSTILE = {
    "deep arrays": '{"messages": ' + "[" * NESTED + "]" * NESTED + "}",
    "deep objects": '{"a":' * NESTED + "1" + "}" * NESTED,
    "deep enough for the reader": '{"messages": ' + "[" * 127 + "]" * 127 + ', "a": ' + "[" * 200 + "]" * 200 + "}",
    "a million elements": '{"messages": [' + "1," * 999_999 + "1]}",
    "NaN": '{"model": "scripted", "temperature": NaN}',
    "Infinity": '{"model": "scripted", "temperature": -Infinity}',
    "beyond a double": '{"model": "scripted", "temperature": 1e999}',
    "an integer of 5000 digits": '{"model": "scripted", "seed": ' + "9" * 5000 + "}",
    "a name twice": '{"model": "scripted", "model": "scripted"}',
    "a name twice, inside": '{"options": {"seed": 1, "seed": 1}}',
    "half a pair": '{"model": "scripted", "prompt": "\\ud800"}',
    "half a pair as a name": '{"\\udfff": 1}',
    "cut": '{"model": "scr',
    "two bodies": '{"model": "scripted"}{"model": "scripted"}',
    "no object": "[]",
    "a byte order mark": "\ufeff{}",
    "a zero byte": '{"model": "a\0b"}',
}
HEAVY = ("a million elements",)
"""Sent to two routes only, for the time it takes."""


def test_hostile_json_is_refused_by_every_route_and_the_next_request_answers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            paths = {route.path for _, route in route_table(served.host) if route.method == "POST"}
            # What takes bytes, and what is refused whatever the body.
            paths -= {"/api/blobs/{digest:str}", "/props", "/slots/{slot:str}"}
            assert len(paths) > 10
            for path in paths:
                for what, body in HOSTILE.items():
                    if what in HEAVY and path not in ("/v1/chat/completions", "/api/create"):
                        continue
                    answer = await served.client.post(path, content=body)
                    assert answer.status_code == 400, (path, what, answer.text[:200])
                    assert answer.json()["error"], (path, what)
            assert (await served.post("/v1/completions", prompt="x")).status_code == 200

    asyncio.run(scenario())
