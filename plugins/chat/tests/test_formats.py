"""Notations of calls: what each reads, what it refuses, and that it reads what chat templates show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from golem_host_chat.formats.base import Call, CallFormat
from golem_host_chat.formats.choice import FORMATS
from golem_host_chat.formats.deepseek import DEEPSEEK
from golem_host_chat.formats.function_tags import QWEN
from golem_host_chat.formats.gemma4 import GEMMA4
from golem_host_chat.formats.llama3 import LLAMA3
from golem_host_chat.formats.mistral import MISTRAL, MISTRAL_IDS, MISTRAL_LIST
from golem_host_chat.formats.param_tags import PARAM_TAGS
from golem_host_chat.formats.tagged_json import HERMES, TaggedJson
from golem_host_chat.generation import Completion, Timings
from golem_host_chat.messages import prepare_messages
from golem_host_chat.routes.reading import AnswerReader, Ending, Reading
from golem_host_chat.templates import ChatTemplate
from tool_template import TOOL_TEMPLATE

TOOLS = {
    "f": {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "either": {"type": ["string", "integer"]},
            "maybe": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "unit": {"enum": ["1", "2"]},
            "flag": {"type": "boolean"},
            "list": {"type": "array"},
            "deep": {"type": "object"},
        },
    },
    "g": {},
}


ALL, OVER = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
ONE, END, APART = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"


def read(format: CallFormat, text: str) -> Ending:
    """The answer `text`, the same whole and by characters."""
    reading = Reading(None, format, TOOLS)
    whole = reading.whole(_completion(text))
    reader = AnswerReader(reading)
    for character in text:
        reader.push(character)
    reader.finish()
    pieces = reader.ending(whole.completion)
    assert (pieces.content, _bare(pieces)) == (whole.content, _bare(whole))
    return whole


def _completion(text: str) -> Completion:
    return Completion(text, "stop", None, 1, 0, 1, 0, Timings(0, 1, 0, 0, 1, 0))


def _bare(ending: Ending) -> list[tuple[str, Any]]:
    return [(call.name, call.object) for call in ending.calls]


def tagged(*parameters: tuple[str, str]) -> str:
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function=f>\n{inner}</function>\n</tool_call>"


READ: list[tuple[CallFormat, str, list[tuple[str, Any]]]] = [
    (
        PARAM_TAGS,
        '<function name="f"><param name="text"><![CDATA[a </param>\n]]></param>\n<param name="either">7</param>'
        "</function>",
        [("f", {"text": "a </param>\n", "either": 7})],
    ),
    (
        HERMES,
        '<tool_call>\n{"name": "f", "arguments": {"a": "}</tool_call>"}}\n</tool_call>',
        [("f", {"a": "}</tool_call>"})],
    ),
    (HERMES, '<tool_call>{"name": "f"}</tool_call>', [("f", {})]),
    (HERMES, '<tool_call>{"arguments": null, "name": "h"}', [("h", {})]),
    (HERMES, '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', [("f", {"a": 1})]),
    (
        HERMES,
        '<tool_call>[{"name": "f"}, {"name": "g", "parameters": {"b": [1e3]}}]</tool_call>',
        [("f", {}), ("g", {"b": [1000.0]})],
    ),
    (HERMES, '<tool_call>{"name": "f"}\n{"name": "g"}</tool_call>', [("f", {}), ("g", {})]),
    (
        HERMES,
        '<tool_call>{"name": "f", "arguments": {"a": "\\ud83d\\ude00\\ud800"}}</tool_call>',
        [("f", {"a": "\U0001f600\ufffd"})],
    ),
    (QWEN, tagged(("text", "one\n\ntwo\n")), [("f", {"text": "one\n\ntwo\n"})]),
    (QWEN, tagged(("text", "7"), ("either", "7"), ("either", "x")), [("f", {"text": "7", "either": "x"})]),
    (
        QWEN,
        tagged(("either", "7"), ("maybe", "null"), ("flag", "True")),
        [("f", {"either": 7, "maybe": None, "flag": True})],
    ),
    (QWEN, tagged(("either", "[1]"), ("unit", "1")), [("f", {"either": "[1]", "unit": "1"})]),
    (
        QWEN,
        tagged(("list", "[1, 2"), ("deep", "{'a': [None, True]}")),
        [("f", {"list": "[1, 2", "deep": {"a": [None, True]}})],
    ),
    (QWEN, tagged(("unknown", '"quoted"'), ("other", "{}")), [("f", {"unknown": '"quoted"', "other": {}})]),
    (QWEN, tagged(("text", "a</parameter> b")), [("f", {"text": "a</parameter> b"})]),
    (QWEN, tagged(), [("f", {})]),
    (QWEN, "<function=g>\n</function>\n</tool_call>", [("g", {})]),
    (QWEN, '<function=g>{"a": 1}</function><function=g>{}</function>', [("g", {"a": 1}), ("g", {})]),
    (
        GEMMA4,
        '<|tool_call>call:f{a:<|"|>{}, "x":<|"|>,b:[1,-2.5,true,null,{c:None}],d:{}}<tool_call|>',
        [("f", {"a": '{}, "x":', "b": [1, -2.5, True, None, {"c": None}], "d": {}})],
    ),
    (
        GEMMA4,
        '<|tool_call>call:f{ <|"|>a b<|"|> : "x\\n" , c : 1 }<tool_call|><|tool_call>call:g{}<tool_call|>',
        [("f", {"a b": "x\n", "c": 1}), ("g", {})],
    ),
    (GEMMA4, "<|tool_call>call:f{a:1}", [("f", {"a": 1})]),
    (
        MISTRAL,
        '[TOOL_CALLS][{"name": "f", "arguments": {"a": "]"}, "id": "123456789"}, {"name": "g", "arguments": {}}]',
        [("f", {"a": "]"}), ("g", {})],
    ),
    (MISTRAL, '[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{}', [("f", {"a": 1}), ("g", {})]),
    (MISTRAL, '[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{"a": 1}', [("f", {"a": 1})]),
    (
        DEEPSEEK,
        f'{ALL}{ONE}function{APART}f\n```json\n{{"a": "```"}}\n```{END}\n'
        f"{ONE}function{APART}g\n```json\n{{}}\n```{END}{OVER}",
        [("f", {"a": "```"}), ("g", {})],
    ),
    (DEEPSEEK, f'{ALL}{ONE}f{APART}{{"a": 1}}{END}{ONE}g{APART}{{}}', [("f", {"a": 1}), ("g", {})]),
    (LLAMA3, ' {"name": "f", "parameters": {"a": {"b": []}}}', [("f", {"a": {"b": []}})]),
    (
        LLAMA3,
        '<|python_tag|>{"name": "f", "parameters": {}}; {"type": "function", "name": "g"}',
        [("f", {}), ("g", {})],
    ),
    (TaggedJson("<|call|>", ""), '<|call|>{"name": "f"}<|call|>{"name": "g"}', [("f", {}), ("g", {})]),
]


@pytest.mark.parametrize(("format", "text", "calls"), READ)
def test_read(format: CallFormat, text: str, calls: list[tuple[str, Any]]) -> None:
    found = read(format, text)
    assert (_bare(found), found.content, found.finish) == (calls, "", "tool_calls")


TEXT: list[tuple[CallFormat, str]] = [
    (PARAM_TAGS, '<function name="unknown"></function>'),
    (PARAM_TAGS, '<function name="f"><param name="text">a</function>'),
    (HERMES, '<tool_call>{"name": 7}</tool_call>'),
    (HERMES, '<tool_call>{"name": ""}</tool_call>'),
    (HERMES, "<tool_call>[]</tool_call>"),
    (HERMES, '<tool_call>["f"]</tool_call>'),
    (HERMES, '<tool_call>{"name": "f", "arguments": [1]}</tool_call>'),
    (HERMES, '<tool_call>{"name": "f", "arguments": "x"}</tool_call>'),
    (HERMES, '<tool_call>{"name": "f"} and</tool_call>'),
    (HERMES, '<tool_call>{"name": "f", "arguments": {"a": "'),
    (HERMES, "The <tool_call> tag"),
    (HERMES, '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 127 + "]" * 127 + "}}</tool_call>"),
    (QWEN, tagged(("text", "a"))[:-30]),
    (QWEN, "<function=unknown>\n</function>"),
    (QWEN, "<tool_call>\n<function=a b>\n</function></tool_call>"),
    (QWEN, tagged(("deep", "[" * 300 + "]" * 300))),
    (GEMMA4, "<|tool_call>call:f{a:Oslo}<tool_call|>"),
    (GEMMA4, "<|tool_call>call:f{a:1 b:2}<tool_call|>"),
    (GEMMA4, "<|tool_call>call:f{a:1}b<tool_call|>"),
    (GEMMA4, "<|tool_call>call:f{a:NaN}<tool_call|>"),
    (GEMMA4, "<|tool_call>call:f{a:" + "[" * 200 + "]" * 200 + "}<tool_call|>"),
    (MISTRAL, "[TOOL_CALLS]f{}"),
    (MISTRAL, "[TOOL_CALLS]some prose"),
    (DEEPSEEK, f"{ALL}{OVER}"),
    (DEEPSEEK, f"{ALL}{ONE}function{APART}f\n{{}}"),
    (DEEPSEEK, f"{ALL}{ONE}function{APART}f\n```json\n[]\n```{END}{OVER}"),
    (DEEPSEEK, f"{ALL}{ONE}f{APART}{{}} and{END}{OVER}"),
    (LLAMA3, '{"name": "unknown", "parameters": {}}'),
    (LLAMA3, '{"answer": {"a": 1}}'),
    (LLAMA3, 'I call {"name": "f", "parameters": {}}'),
    (LLAMA3, "{" * 100),
]


@pytest.mark.parametrize(("format", "text"), TEXT)
def test_what_is_no_call_stays_text(format: CallFormat, text: str) -> None:
    found = read(format, text)
    assert (found.content, found.calls, found.finish) == (text, (), "stop")


def test_what_cannot_be_read_leaves_what_follows_readable() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": "<tool_call>{"name": "g"}</tool_call>'
    found = read(HERMES, text)
    assert (found.content, _bare(found)) == ('<tool_call>{"name": "f", "arguments": {"a": "', [("g", {})])


def test_calls_have_their_own_ids() -> None:
    calls = read(HERMES, '<tool_call>{"name": "f"}</tool_call>' * 3).calls
    assert len({call.id for call in calls}) == 3


NASTY: list[dict[str, Any]] = [
    {"text": 'a "quoted"\n\ttext\\ with {braces}, [brackets], <tags> & é 漢字 🙂'},
    {"text": " spaces \n"},
    {"text": ""},
    {"text": "null"},
    {"text": "1.5"},
    {"text": '{"a": 1}'},
    {"text": "</tool_call> </function> [/TOOL_CALLS] <|im_end|> }]}"},
    {"flag": True, "list": [1, "two", None, {"three": [3.25]}], "deep": {"a": {"b": {}}, "c": []}},
    {"maybe": None, "either": -7},
    {},
]


def history(*calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A question and an assistant's message with these calls."""
    made = [
        {"id": f"call0000{place}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for place, (name, arguments) in enumerate(calls)
    ]
    return [{"role": "user", "content": "Question"}, {"role": "assistant", "content": None, "tool_calls": made}]


def shown(template: ChatTemplate, *calls: tuple[str, dict[str, Any]]) -> str:
    """What the template shows of the calls: all after the question."""
    nothing = {"type": "object", "properties": {}}  # not every template can show every schema
    declared = [
        {"type": "function", "function": {"name": name, "description": "", "parameters": nothing}} for name in TOOLS
    ]
    messages = prepare_messages(history(*calls), template)
    return template.render(messages, tools=declared, add_generation_prompt=False).rpartition("Question")[2]


def reads_back(template: ChatTemplate, calls: list[tuple[str, dict[str, Any]]]) -> None:
    format = template.call_format
    assert format is not None
    text = shown(template, *calls)
    first = min(place for opener in format.openers if (place := text.find(opener)) >= 0)
    ending = Reading(None, format, TOOLS).whole(_completion(text[first:]))
    assert _bare(ending) == calls, text


def test_own_template_reads_back() -> None:
    template = ChatTemplate(TOOL_TEMPLATE)
    assert template.call_format is not None
    assert template.call_format.openers == HERMES.openers
    for arguments in NASTY:
        reads_back(template, [("f", arguments), ("g", {})])


SMOLLM3 = (
    "<|im_start|>system\n{% if xml_tools %}<tools>\n"
    "{% for tool in xml_tools %}{{ tool | string }}\n{% endfor %}</tools>\n"
    'Write <tool_call>\n{"name": <name>, "arguments": <object>}\n</tool_call>{% endif %}<|im_end|>\n'
    "{% for message in messages %}<|im_start|>{{ 'user' if message.role == 'tool' else message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
)
"""As its template has it: tools under another name, and no word of earlier calls."""


def test_calls_that_a_template_tells_of_and_does_not_show() -> None:
    template = ChatTemplate(SMOLLM3)
    assert template.call_format == HERMES and template.supports_tools
    for arguments in NASTY:
        reads_back(template, [("f", arguments), ("g", {})])
    messages = [*history(("f", {"a": 1})), {"role": "tool", "content": "Result", "tool_call_id": "call00000"}]
    messages[1]["content"] = "Let me see."
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    text = template.render(prepare_messages(messages, template), tools=[tool])
    assert "<tools>\n{'name': 'f', 'parameters': {}}\n</tools>" in text
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    assert f"assistant\nLet me see.\n{call}<|im_end|>\n<|im_start|>user\nResult<|im_end|>" in text
    assert ChatTemplate(SMOLLM3.replace("xml_tools", "tools")).call_format == HERMES
    assert ChatTemplate(SMOLLM3.replace("xml_tools", "my_tools")).call_format is None


def test_a_templates_own_tags_are_found() -> None:
    template = ChatTemplate(TOOL_TEMPLATE.replace("<tool_call>", "<|run|>").replace("</tool_call>", "<|ran|>"))
    assert template.call_format == TaggedJson("<|run|>", "<|ran|>")
    reads_back(template, [("f", {"text": "x"})])


KNOWN: dict[str, CallFormat] = {
    "Qwen-Qwen2.5-7B-Instruct": HERMES,
    "Qwen-Qwen3-0.6B": HERMES,
    "Qwen-QwQ-32B": HERMES,
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": HERMES,
    "openbmb-MiniCPM5-1B": PARAM_TAGS,
    "llama-cpp-deepseek-r1": DEEPSEEK,
    "Qwen3-Coder": QWEN,
    "Qwen3.5-4B": QWEN,
    "google-gemma-4-31B-it": GEMMA4,
    "google-gemma-4-31B-it-interleaved": GEMMA4,
    "meta-llama-Llama-3.1-8B-Instruct": LLAMA3,
    "meta-llama-Llama-3.2-3B-Instruct": LLAMA3,
    "meta-llama-Llama-3.3-70B-Instruct": LLAMA3,
    "mistralai-Mistral-Nemo-Instruct-2407": MISTRAL_LIST,
    "Mistral-Small-3.2-24B-Instruct-2506": MISTRAL_IDS,
    "mistralai-Ministral-3-14B-Reasoning-2512": MISTRAL,
    "unsloth-mistral-Devstral-Small-2507": MISTRAL,
}
SINGLE = ("meta-llama-Llama", "GigaChat3")
"""Templates that show one call at most."""


def test_real_templates_read_back(llama_source: Path) -> None:
    """parse(render(calls)) is the calls, for every template of llama.cpp's collection whose calls are read."""
    found = 0
    for path in sorted((llama_source / "models" / "templates").glob("*.jinja")):
        template = ChatTemplate(path.read_text(encoding="utf-8"), "<s>", "</s>")
        if path.stem in KNOWN:
            assert template.call_format == KNOWN[path.stem], path.stem
        if template.call_format is None:
            continue
        found += 1
        for arguments in NASTY:
            reads_back(template, [("f", arguments)])
        if not path.stem.startswith(SINGLE):
            reads_back(template, [("f", {"text": "x"}), ("g", {}), ("f", {"flag": False})])
    assert found >= 30


def test_formats_say_what_they_are() -> None:
    for format in FORMATS:
        assert set(format.openers) & set(format.markers), format
    assert Call.of("f", None).object == {}
