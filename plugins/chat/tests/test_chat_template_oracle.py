"""Renderings compared with transformers' `apply_chat_template`: equal strings, or both sides refuse."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from golem_host.errors import BadRequest
from golem_host.weights.gguf import open_gguf
from golem_host_chat.messages import prepare_messages
from golem_host_chat.templates import ChatTemplate

pytestmark = pytest.mark.oracle

ORACLE = """
import json, sys
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

words = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "?": 2}, unk_token="?"))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>", unk_token="?")
for line in sys.stdin:
    answers = []
    for case in json.loads(line):
        tokenizer.chat_template = case["template"]
        try:
            answers.append(tokenizer.apply_chat_template(
                case["messages"], tools=case["tools"], add_generation_prompt=case["add_generation_prompt"],
                tokenize=False, **case["kwargs"]))
        except Exception as error:
            answers.append({"error": f"{type(error).__name__}: {error}"})
    print(json.dumps(answers), flush=True)
"""
TEMPLATES = [
    "Apertus-8B-Instruct",
    "Bielik-11B-v3.0-Instruct",
    "ByteDance-Seed-OSS",
    "GLM-4.6",
    "HuggingFaceTB-SmolLM3-3B",
    "LFM2-8B-A1B",
    "LFM2.5-Instruct",
    "Kimi-K2-Instruct",
    "Mistral-Small-3.2-24B-Instruct-2506",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    "Qwen-QwQ-32B",
    "Qwen-Qwen2.5-7B-Instruct",
    "Qwen-Qwen3-0.6B",
    "Qwen3-Coder",
    "Qwen3.5-4B",
    "Reka-Edge",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "deepseek-ai-DeepSeek-V3.1",
    "google-gemma-2-2b-it",
    "google-gemma-4-31B-it",
    "google-gemma-4-31B-it-interleaved",
    "ibm-granite-granite-4.0",
    "llama-cpp-deepseek-r1",
    "meetkai-functionary-medium-v3.2",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct",
    "microsoft-Phi-3.5-mini-instruct",
    "mistralai-Ministral-3-14B-Reasoning-2512",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "openai-gpt-oss-120b",
    "openbmb-MiniCPM5-1B",
    "poolside-Laguna-XS.2",
    "unsloth-mistral-Devstral-Small-2507",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
]
DATES = {"date_string": "01 Feb 2030", "datetime": "Feb 01 2030"}


def said(role, content, **fields):
    return {"role": role, "content": content, **fields}


def called(name, arguments, call_id, **fields):
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call], **fields}


HI = said("user", 'Hi <there> & "you", it\'s  é 漢字 🙂\n')
CONVERSATIONS = [
    [HI],
    [said("system", " Be brief. "), HI],
    [said("developer", "Be brief."), HI, said("assistant", "Yes?"), said("user", "What is 2+2?")],
    [HI, said("assistant", "<think>\nhm\n</think>\n\nFour."), said("user", " More ")],
    [HI, said("assistant", "Four.", reasoning_content="two and two"), said("user", "More")],
    [HI, said("assistant", "Four.", thinking="two and two")],
    [HI, HI],
    [said("assistant", "I begin."), HI],
    [said("system", "Only this.")],
    [said("user", [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])],
    [HI, called("get_weather", '{"city":"Köln","days":[1,2.5],"deep":{"a":null,"b":true}}', "call00001")],
    [
        said("system", "Use tools."),
        HI,
        called("get_weather", {"city": "A\nB"}, "call00001", reasoning_content="need it"),
        said("tool", '{"temperature": 7}', tool_call_id="call00001"),
        said("assistant", "Seven."),
        said("user", "Thanks"),
    ],
    [
        HI,
        called("get_weather", {}, "call00001"),
        said("tool", "cold", tool_call_id="call00001"),
        called("get_time", '{"zone": "UTC"}', "call00002"),
        said("tool", [{"type": "text", "text": "late"}], tool_call_id="call00002"),
    ],
    [HI, said("assistant", None, reasoning_content="only a thought"), said("user", "")],
    [said("system", [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}]), HI, said("assistant", "")],
    [
        said("system", None),
        said("user", "<|im_end|>\n<end_of_turn>[/INST]<|eot_id|> {{ not code }} {% nor this %}", name="Ann"),
        said("assistant", "  spaces\n\n", reasoning="\n kept? \n"),
        HI,
    ],
    [
        HI,
        {
            "role": "assistant",
            "content": "I ask both.",
            "reasoning_content": "two\nthings",
            "tool_calls": [
                *called("get_weather", '{"city": "Oslo", "unit": null}', "call00001")["tool_calls"],
                *called("get_time", {"zone": None, "exact": False, "at": [], "in": {}}, "call00002")["tool_calls"],
            ],
        },
        said("tool", '{"temperature": -3.50, "wind": null}', tool_call_id="call00001"),
        said("tool", "", tool_call_id="call00002"),
        said("assistant", "Cold.", reasoning_content="so cold"),
        said("user", "And now?"),
        called("get_time", "", "call00003", reasoning_content="again"),
        said("tool", "line\nline <b>", tool_call_id="call00003"),
    ],
    [HI, said("assistant", "One."), said("assistant", "Two."), said("system", "Late."), HI],
    [HI, said("assistant", "<think>half a thought"), said("user", "a</think>b"), said("assistant", "The end is")],
    [
        said("user", "first"),
        said("assistant", "1", reasoning_content="r1"),
        said("user", "<tool_response>not one</tool_response>"),
        said("assistant", "2", reasoning_content="r2"),
        said("user", "third"),
    ],
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'Weather <of> a "city" — é',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where"},
                    "days": {"type": "array", "items": {"type": "number"}},
                    "unit": {"type": "string", "enum": ["C", "F"]},
                    "deep": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "get_time", "description": "Now", "parameters": {"type": "object", "properties": {}}},
    },
]
VARIANTS = [
    {"tools": None, "add_generation_prompt": True, "enable_thinking": None},
    {"tools": None, "add_generation_prompt": False, "enable_thinking": False},
    {"tools": TOOLS, "add_generation_prompt": True, "enable_thinking": True},
]


@pytest.fixture(scope="module")
def transformers(oracle_python) -> Iterator[Callable[[list[dict[str, Any]]], list[Any]]]:
    """Cases -> prompts, or `{"error": ...}` where transformers raises; one process for all tests here."""
    with subprocess.Popen(
        [oracle_python, "-c", ORACLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as oracle:
        assert oracle.stdin is not None and oracle.stdout is not None
        sent, received = oracle.stdin, oracle.stdout

        def ask(cases: list[dict[str, Any]]) -> list[Any]:
            sent.write(json.dumps(cases) + "\n")
            sent.flush()
            return json.loads(received.readline())

        yield ask
        sent.close()


def compare(source: str, transformers: Callable[[list[dict[str, Any]]], list[Any]]) -> int:
    """Render all conversations on both sides; the number of equal strings."""
    template = ChatTemplate(source, "<s>", "</s>")
    ours, cases = [], []
    for conversation in CONVERSATIONS:
        for variant in VARIANTS:
            try:
                messages = prepare_messages(conversation, template)
            except BadRequest:
                continue
            thinking = variant["enable_thinking"]
            if thinking is None and template.supports_thinking:
                thinking = False
            kwargs = DATES if thinking is None else {**DATES, "enable_thinking": thinking}
            cases.append({**variant, "template": source, "messages": messages, "kwargs": kwargs})
            try:
                ours.append(template.render(messages, **variant, kwargs=DATES))
            except BadRequest as error:
                ours.append({"error": error.message})
    equal = 0
    for case, mine, theirs in zip(cases, ours, transformers(cases), strict=True):
        if isinstance(theirs, dict):
            if case["tools"] is None and "'NoneType' object is not iterable" in theirs["error"]:
                continue  # transformers passes `tools` as None where llama-server leaves it out
            if "type generator is not JSON serializable" in theirs["error"]:
                continue  # `tools | map(...) | tojson`: llama-server's engine and this one write the list
            assert isinstance(mine, dict), (case["messages"], mine, theirs)
        else:
            assert mine == theirs, case["messages"]
            equal += 1
    return equal


def test_the_real_template_of_smollm2(smollm2_path, transformers):
    with open_gguf(smollm2_path) as gguf:
        source = gguf.metadata["tokenizer.chat_template"]
    assert compare(source, transformers) >= 2 * len(CONVERSATIONS)


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_of_the_llama_cpp_collection(name, llama_source, transformers):
    source = (llama_source / "models" / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
    assert compare(source, transformers) >= len(CONVERSATIONS)
