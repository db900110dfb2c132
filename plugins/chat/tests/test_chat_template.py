"""Rendering conversations, thinking, kwargs, and what templates are found to be able to do."""

from __future__ import annotations

import pytest

from golem_host.errors import BadRequest
from golem_host_chat.messages import prepare_messages
from golem_host_chat.templates import ChatTemplate, TemplateError

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
THINKER = (
    CHATML + "{% if add_generation_prompt and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
)
ALTERNATING = """
{{- bos_token }}
{%- for m in messages %}
  {%- if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
  {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}
  {{- '<turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content | trim + '</turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<turn>model\n' }}{% endif %}
"""
TOOLS = """
{%- if tools %}{{ '[TOOLS]' }}{% for t in tools %}{{ t.function | tojson }}{% endfor %}{{ '\n' }}{% endif %}
{%- for m in messages %}
  {%- if m.role == 'tool' %}{{ 'result of ' + m.name + ': ' + m.content + '\n' }}
  {%- elif m.tool_calls %}
    {%- for call in m.tool_calls %}
      {{- 'call ' + call.function.name }}
      {%- for key, value in call.function.arguments.items() %}{{ ' ' + key + '=' + value | string }}{% endfor %}
      {{- '\n' }}
    {%- endfor %}
  {%- else %}{{ m.role + ': ' + m.content + '\n' }}
  {%- endif %}
{%- endfor %}
"""
STRING_TOOLS = TOOLS.replace(
    "{%- for key, value in call.function.arguments.items() %}{{ ' ' + key + '=' + value | string }}{% endfor %}",
    "{{- ' ' + call.function.arguments }}",
)
PRINTING_TOOLS = STRING_TOOLS.replace("' ' + call.function.arguments", "call.function.arguments")
TYPED = """
{%- for m in messages %}
  {{- m.role + ':' }}
  {%- for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}
  {{- '\\n' }}
{%- endfor %}
"""
TYPED_TOOLS = TOOLS.replace("m.content", "m.content[0].text")
USER = {"role": "user", "content": "Hi"}


def chat(source, messages, **options):
    template = ChatTemplate(source, "<s>", "</s>")
    return template.render(prepare_messages(messages, template), **options)


def test_chatml():
    messages = [{"role": "system", "content": "Be brief."}, USER, {"role": "assistant", "content": "Yes?"}, USER]
    assert chat(CHATML, messages) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert chat(CHATML, [USER], add_generation_prompt=False) == "<|im_start|>user\nHi<|im_end|>\n"


def test_alternating_template_merges_the_system_text_and_refuses_in_its_own_words():
    messages = [{"role": "developer", "content": "Be brief."}, USER]
    assert chat(ALTERNATING, messages) == "<s><turn>user\nBe brief.\nHi</turn>\n<turn>model\n"
    with pytest.raises(TemplateError, match="Roles must alternate"):
        chat(ALTERNATING, [USER, USER])


@pytest.mark.parametrize(
    ("options", "off"),
    [
        ({}, True),
        ({"enable_thinking": False}, True),
        ({"enable_thinking": True}, False),
        ({"kwargs": {"enable_thinking": True}}, False),
        ({"kwargs": {"enable_thinking": None}}, True),
        ({"enable_thinking": True, "kwargs": {"enable_thinking": False}}, True),
    ],
)
def test_thinking_is_off_unless_asked(options, off):
    assert chat(THINKER, [USER], **options).endswith("</think>\n\n") == off


def test_enable_thinking_is_not_defined_for_a_template_that_cannot_switch():
    assert chat("{{ messages[0].content }} {{ enable_thinking is defined }}", [USER]) == "Hi False"
    assert chat("{{ messages[0].content }} {{ enable_thinking is defined }}", [USER], enable_thinking=True) == "Hi True"


@pytest.mark.parametrize(("value", "kind"), [("true", "string"), (1, "number"), ([], "array"), ({}, "object")])
def test_enable_thinking_must_be_a_boolean(value, kind):
    with pytest.raises(BadRequest) as caught:
        chat(THINKER, [USER], kwargs={"enable_thinking": value})
    assert caught.value.message == f'invalid type for "enable_thinking" (expected boolean, got {kind})'
    assert caught.value.param == "chat_template_kwargs"


def test_kwargs_come_last_and_bring_the_names_that_go_with_them():
    source = (
        "{{ date_string }} {{ reasoning_effort }} {{ reasoning_strength }} {{ preserve_thinking }} {{ clear_thinking }}"
        " {{ truncate_history_thinking }} {{ drop_thinking }}"
    )
    kwargs = {"date_string": "today", "reasoning_effort": "low", "preserve_reasoning": True}
    assert chat(source, [USER], kwargs=kwargs) == "today low low True False False False"
    assert chat(source, [USER], kwargs=kwargs | {"clear_thinking": True}) == "today low low True True False False"


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt"])
def test_kwargs_do_not_replace_fields_of_the_request(name):
    with pytest.raises(BadRequest, match=f"'{name}' is a field of its own"):
        chat(CHATML, [USER], kwargs={name: []})


def test_bos_and_eos_are_taken_off_once():
    template = ChatTemplate(CHATML, "<s>", "</s>")
    assert template.strip_bos("<s><s>a<s>") == "<s>a<s>"
    assert template.strip_eos("a</s></s>") == "a</s>"
    plain = ChatTemplate(CHATML)
    assert plain.strip_bos("a") == "a" and plain.strip_eos("a") == "a"


ABILITIES = (
    "supports_thinking",
    "supports_system",
    "supports_tools",
    "supports_tool_calls",
    "requires_typed_content",
    "takes_object_arguments",
)


@pytest.mark.parametrize(
    ("source", "able"),
    [
        (CHATML, {"supports_system"}),
        (THINKER, {"supports_system", "supports_thinking"}),
        (ALTERNATING, set()),
        (TOOLS, {"supports_system", "supports_tools", "supports_tool_calls", "takes_object_arguments"}),
        (STRING_TOOLS, {"supports_system", "supports_tools", "supports_tool_calls"}),
        (PRINTING_TOOLS, {"supports_system", "supports_tools", "supports_tool_calls"}),
        (TYPED, {"requires_typed_content", "supports_system"}),
        (
            TYPED_TOOLS,
            {
                "requires_typed_content",
                "supports_system",
                "supports_tools",
                "supports_tool_calls",
                "takes_object_arguments",
            },
        ),
        ("{{ raise_exception('never') }}", set()),
    ],
    ids=[
        "chatml",
        "thinker",
        "alternating",
        "tools",
        "string tools",
        "printing tools",
        "typed",
        "typed tools",
        "refusing",
    ],
)
def test_abilities_are_found_by_rendering(source, able):
    template = ChatTemplate(source)
    assert {name for name in ABILITIES if getattr(template, name)} == able


def history(arguments):
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    return [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
    ]


@pytest.mark.parametrize("arguments", ['{"city":"Köln","days":2}', {"city": "Köln", "days": 2}])
def test_calls_and_results_in_the_history(arguments):
    assert chat(TOOLS, history(arguments)) == "user: Hi\ncall weather city=Köln days=2\nresult of weather: sunny\n"
    text = arguments if isinstance(arguments, str) else '{"city": "Köln", "days": 2}'
    expected = f"user: Hi\ncall weather {text}\nresult of weather: sunny\n"
    assert chat(STRING_TOOLS, history(arguments)) == expected
    assert chat(PRINTING_TOOLS, history(arguments)) == expected.replace("weather {", "weather{")


def test_typed_content():
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert (
        chat(TYPED, [{"role": "user", "content": parts}, {"role": "assistant", "content": ""}])
        == "user:one\ntwo\nassistant:\n"
    )


def test_rendering_leaves_the_messages_alone():
    messages = [{"role": "system", "content": "s"}, *history('{"a": 1}')]
    before = repr(messages)
    for source in (TOOLS, STRING_TOOLS, TYPED_TOOLS):
        chat(source, messages)
    assert repr(messages) == before
