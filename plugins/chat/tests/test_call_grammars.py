"""Grammars of calls: what they allow is read as calls, and nothing else is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constraint_checks import Masks
from constraint_checks import masks as masks_over
from golem_host.devices.cpu import CpuBackend
from golem_host.devices.device import Device
from golem_host.http.fields import Fields
from golem_host.testing.tiny import tiny_gguf
from golem_host_chat.constraints.constraint import Constraint
from golem_host_chat.constraints.masking import allows
from golem_host_chat.constraints.writer import GrammarWriter
from golem_host_chat.formats.base import CallFormat, Tools
from golem_host_chat.formats.deepseek import DEEPSEEK, DEEPSEEK_PLAIN
from golem_host_chat.formats.function_tags import QWEN, SEED
from golem_host_chat.formats.gemma4 import GEMMA4
from golem_host_chat.formats.llama3 import LLAMA3
from golem_host_chat.formats.mistral import MISTRAL, MISTRAL_IDS, MISTRAL_LIST
from golem_host_chat.formats.param_tags import PARAM_TAGS
from golem_host_chat.formats.tagged_json import HERMES, TaggedJson
from golem_host_chat.model import ChatModel
from golem_host_chat.routes.chat_request import ChatRequest
from test_runtime import SETTINGS
from tool_template import TOOL_TEMPLATE

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
CITY = {**NOTHING, "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Tools = {"get_weather": CITY, "get_time": NOTHING}


@pytest.fixture(scope="module")
def masks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Masks]:
    with masks_over(tmp_path_factory.mktemp("masks")) as found:
        yield found


def constraint(masks: Masks, format: CallFormat, tools: Tools = TOOLS, *, several: bool = True) -> Constraint:
    write = GrammarWriter(masks.vocabulary.tokenizer)
    start = f"start: {format.grammar(write, tools, several=several)}\n"
    return Constraint(masks.vocabulary, start + write.rules)


OSLO = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
DEEPSEEK_CALL = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
CALLS: list[tuple[CallFormat, str, str]] = [
    (
        PARAM_TAGS,
        '<function name="get_weather"><param name="city">Oslo</param></function>',
        '<function name="get_time"></function>',
    ),
    (
        PARAM_TAGS,
        '<function name="get_weather"><param name="city"><![CDATA[a\n</param>]]></param></function>',
        "",
    ),
    (HERMES, f"<tool_call>\n{OSLO}\n</tool_call>", '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'),
    (TaggedJson("<c>", "</c>", listed=True), f"<c>[{OSLO}]</c>", ""),
    (LLAMA3, '{"name": "get_weather", "parameters": {"city": "Oslo"}}', ""),
    (
        DEEPSEEK,
        DEEPSEEK_CALL.format('function<｜tool▁sep｜>get_weather\n```json\n{"city": "Oslo"}\n```'),
        "",
    ),
    (DEEPSEEK_PLAIN, DEEPSEEK_CALL.format('get_weather<｜tool▁sep｜>{"city": "Oslo"}'), ""),
    (MISTRAL_LIST, f'[TOOL_CALLS][{OSLO[:-1]}, "id": "123456789"}}]', ""),
    (MISTRAL_IDS, '[TOOL_CALLS]get_weather[CALL_ID]123456789[ARGS]{"city": "Oslo"}', ""),
    (MISTRAL, '[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}', "[TOOL_CALLS]get_time[ARGS]{}"),
    (
        QWEN,
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nOs\n<lo>\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=get_time>\n</function>\n</tool_call>",
    ),
    (
        SEED,
        "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Oslo</parameter>\n</function>\n</seed:tool_call>",
        "",
    ),
    (
        GEMMA4,
        '<|tool_call>call:get_weather{city:<|"|>Oslo "{}" é<|"|>}<tool_call|>',
        "<|tool_call>call:get_time{}<tool_call|>",
    ),
]


@pytest.mark.parametrize(("format", "call", "other"), CALLS)
def test_calls_fit(masks: Masks, format: CallFormat, call: str, other: str) -> None:
    several, single = constraint(masks, format), constraint(masks, format, several=False)
    assert masks.fits(several, call)
    assert masks.fits(single, call)
    if other:
        assert masks.fits(several, call + other)
        assert masks.fits(several, f"{other}{call}")
        assert not masks.fits(single, call + other)
    for text in ("", "Hello", call[:-1], f"I call {call}", call + " and", call.replace("weather", "whether")):
        assert not masks.fits(several, text), text
    assert not masks.fits(several, call.replace("city", "town"))


TYPED: Tools = {
    "f": {
        "type": "object",
        "properties": {
            "b": {"type": "integer"},
            "a": {"enum": ["x", "y"]},
            "c": {"type": ["boolean", "null"]},
            "d": {"type": "array", "items": {"type": "string"}},
            "e": {"type": "object"},
            "f": {},
        },
        "required": ["b"],
        "additionalProperties": False,
    }
}


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ("{b:1}", True),
        ('{a:<|"|>x<|"|>,b:-20,c:null,d:[<|"|><|"|>,<|"|>,]<|"|>],e:{},f:{g:[1.5,{h:true}]}}', True),
        ("{}", False),
        ("{b:1.5}", False),
        ('{b:<|"|>1<|"|>}', False),
        ("{b:1,a:x}", False),
        ('{a:<|"|>z<|"|>,b:1}', False),
        ("{b:1,c:2}", False),
        ("{b:1,d:[1]}", False),
        ("{b:1,g:2}", False),
        ("{b:1,}", False),
        ("{,b:1}", False),
    ],
)
def test_types_in_gemmas_notation(masks: Masks, arguments: str, fits: bool) -> None:
    assert masks.fits(constraint(masks, GEMMA4, TYPED), f"<|tool_call>call:f{arguments}<tool_call|>") == fits


@pytest.mark.parametrize(
    ("parameters", "fits"),
    [
        ([("b", "1")], True),
        ([("b", "1"), ("a", "x"), ("c", "null"), ("d", '["x"]'), ("e", "{}"), ("f", "any\ntext")], True),
        ([], False),
        ([("b", "x")], False),
        ([("b", "1"), ("a", "z")], False),
        ([("a", "x"), ("b", "1")], False),
        ([("b", "1"), ("d", "[1]")], False),
        ([("b", "1"), ("g", "1")], False),
    ],
)
def test_types_between_tags(masks: Masks, parameters: list[tuple[str, str]], fits: bool) -> None:
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    text = f"<tool_call>\n<function=f>\n{inner}</function>\n</tool_call>"
    assert masks.fits(constraint(masks, QWEN, TYPED), text) == fits


def test_control_tokens_are_themselves(masks: Masks) -> None:
    """They cannot be spelled, and a text cannot contain them."""
    tokenizer = masks.vocabulary.tokenizer
    end, begin = "<|im_end|>", "<|im_start|>"
    ids: Any = tokenizer.vocab.ids
    progress = constraint(masks, TaggedJson(begin, "</c>")).begin()
    mask = progress.allowed()
    assert [id for id in range(len(tokenizer.vocab)) if allows(mask, id)] == [ids[begin.encode()]]
    write = GrammarWriter(tokenizer)
    assert write.until(begin) == f"{write.pattern('(?s:.*)')} <[{ids[begin.encode()]}]>"
    assert write.text(f"a{end}b") == f'"a" <[{ids[end.encode()]}]> "b"'


def test_a_model_that_must_call(tmp_path: Path) -> None:
    """Random weights: whatever they want, it is a call of the function that is named, after a thought if they think."""
    device = Device("cpu", lambda: CpuBackend(threads=1))
    device.start()
    path = tiny_gguf(tmp_path / "m.gguf", "llama", metadata={"tokenizer.chat_template": TOOL_TEMPLATE})
    runtime = ChatModel(path).load(device, SETTINGS | {"context": 2048}, lambda share: None)
    device.attach(runtime.lane)
    named = {"type": "function", "function": {"name": "get_time"}}
    for choice, thinks in ((named, False), ("required", False), (named, True)):
        body = {
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "get_time", "parameters": NOTHING}}],
            "tool_choice": choice,
            "parallel_tool_calls": False,
            "max_tokens": 400,
            "temperature": 2.0,
            "seed": 7,
            "chat_template_kwargs": {"enable_thinking": thinks},
            "reasoning_budget_tokens": 8,
        }
        draw = ChatRequest.read(Fields(body)).draw(runtime)
        [job] = draw.jobs()
        runtime.lane.submit(job)
        while job.end is None:
            device.submit(lambda: None).result()
        ending = draw.reading.whole(job.value)
        assert [(call.name, call.object) for call in ending.calls] == [("get_time", {})]
        assert (ending.content, ending.finish, bool(ending.reasoning)) == ("", "tool_calls", thinks)
    device.stop()


@pytest.mark.parametrize("format", [HERMES, LLAMA3, MISTRAL, MISTRAL_LIST])
def test_arguments_are_an_object(masks: Masks, format: CallFormat) -> None:
    with pytest.raises(ValueError, match="no object"):
        constraint(masks, format, {"get_time": {"type": "string"}})
    either = {"type": ["string", "object"], "additionalProperties": False}
    member = "parameters" if format is LLAMA3 else "arguments"
    begun = {HERMES: "<tool_call>", LLAMA3: "", MISTRAL: "[TOOL_CALLS]get_time[ARGS]", MISTRAL_LIST: "[TOOL_CALLS]["}
    for parameters in (
        either,
        {"anyOf": [{"type": "string"}, {"enum": [{}, 5]}]},
        {"$ref": "#/$defs/a", "$defs": {"a": either}},
    ):
        found = constraint(masks, format, {"get_time": parameters}, several=False)
        for arguments, fits in (("{}", True), ('"a"', False), ("5", False)):
            call = arguments if format is MISTRAL else f'{{"name": "get_time", "{member}": {arguments}}}'
            ending = {HERMES: "</tool_call>", MISTRAL_LIST: "]"}.get(format, "")
            assert masks.fits(found, f"{begun[format]}{call}{ending}") == fits, (parameters, arguments)
