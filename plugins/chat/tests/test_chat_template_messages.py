from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.errors import BadRequest
from golem_host_chat.messages import prepare_messages


@dataclass(frozen=True)
class Abilities:
    supports_system: bool = True
    supports_tool_calls: bool = True
    requires_typed_content: bool = False
    takes_object_arguments: bool = True
    calls_are_content: bool = False
    wants_short_ids: bool = False
    embeds_results: bool = False


def prepared(*messages, **abilities):
    return prepare_messages(list(messages), Abilities(**abilities))


def refused(*messages, **abilities):
    with pytest.raises(BadRequest) as caught:
        prepared(*messages, **abilities)
    return caught.value


CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
USER = {"role": "user", "content": "hi"}


def test_plain_messages_come_back_as_they_are():
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u", "name": "Ann"}, USER]
    assert prepared(*messages) == messages


def test_roles_in_any_case_and_developer_as_system():
    messages = prepared({"role": "Developer", "content": "d"}, {"role": "USER", "content": "u"})
    assert [message["role"] for message in messages] == ["system", "user"]


@pytest.mark.parametrize("role", ["system", "user", "assistant", "developer"])
def test_null_content_is_empty_text(role):
    assert prepared({"role": role, "content": None})[0]["content"] == ""


def test_text_parts_are_joined_by_newlines():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]
    assert prepared({"role": "user", "content": parts})[0]["content"] == "a\n\nb"
    assert prepared({"role": "user", "content": []})[0]["content"] == ""


def test_history_an_openai_client_replays_is_taken():
    replayed = {
        "role": "assistant",
        "content": "yes",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
        "name": None,
        "reasoning_content": None,
        "images": None,
        "id": "m1",
    }
    assert prepared(USER, replayed)[1] == {"role": "assistant", "content": "yes"}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_earlier_reasoning_is_passed_on_under_the_names_templates_read(field):
    message = prepared({"role": "assistant", "content": "4", field: "2+2"})[0]
    assert message == {"role": "assistant", "content": "4", "reasoning_content": "2+2", "thinking": "2+2"}


def test_the_same_reasoning_under_two_names_is_one():
    both = {"role": "assistant", "content": "4", "reasoning_content": "2+2", "reasoning": "2+2"}
    assert prepared(both)[0]["reasoning_content"] == "2+2"
    assert refused({**both, "reasoning": "3+1"}).param == "messages[0].reasoning"


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": []}])
def test_a_call_without_content_gets_empty_content(content):
    result = {"role": "tool", "tool_call_id": "a", "content": "1"}
    message = prepared(USER, {"role": "assistant", "tool_calls": [CALL], **content}, result)[1]
    assert message == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}],
    }


@pytest.mark.parametrize("given_arguments", [None, "", "{}", {}])
def test_a_call_without_arguments_has_an_empty_object(given_arguments):
    call = {"function": {"name": "f", "arguments": given_arguments}}
    assert prepared({"role": "assistant", "tool_calls": [call]})[0]["tool_calls"][0]["function"]["arguments"] == {}
    text = prepared({"role": "assistant", "tool_calls": [call]}, takes_object_arguments=False)
    assert text[0]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_a_result_is_named_after_the_latest_call_with_its_id():
    old, new = ({**CALL, "function": {"name": name}} for name in ("old", "new"))
    messages = prepared(
        {"role": "assistant", "tool_calls": [old]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "assistant", "tool_calls": [new]},
        {"role": "tool", "tool_call_id": "a", "content": "2"},
        {"role": "tool", "tool_name": "given", "content": "3"},
        {"role": "tool", "name": "own", "tool_call_id": "a", "content": "4"},
    )
    assert [m.get("name") for m in messages if m["role"] == "tool"] == ["old", "new", "given", "own"]


def called(*names, **ids):
    """An assistant's calls of these functions, without ids, or with those given by name."""
    calls = [{"function": {"name": name}} for name in names]
    return {"role": "assistant", "tool_calls": calls + [{"id": ids[n], "function": {"name": n}} for n in ids]}


def results(messages):
    return [(m["content"], m["name"], m["tool_call_id"]) for m in messages if m["role"] == "tool"]


def test_results_follow_in_the_order_of_their_calls():
    messages = prepared(
        called(f="1", g="2", h="3"),
        {"role": "tool", "tool_call_id": "3", "content": "of h"},
        {"role": "tool", "tool_call_id": "1", "content": "of f"},
        {"role": "tool", "tool_call_id": "2", "content": "of g"},
        called(f="4", g="5"),
        {"role": "tool", "tool_call_id": "5", "content": "of g"},
        {"role": "tool", "tool_call_id": "4", "content": "of f"},
    )
    assert results(messages) == [
        ("of f", "f", "1"), ("of g", "g", "2"), ("of h", "h", "3"), ("of f", "f", "4"), ("of g", "g", "5"),
    ]  # fmt: skip


def test_results_without_an_id_answer_the_call_of_their_name_or_the_next():
    messages = prepared(
        called("f", "g", "f"),
        {"role": "tool", "tool_name": "g", "content": "of g"},
        {"role": "tool", "content": "first"},
        {"role": "tool", "name": "f", "content": "second"},
    )
    ids = [call["id"] for call in messages[0]["tool_calls"]]
    assert len(set(ids)) == 3
    assert results(messages) == [("first", "f", ids[0]), ("of g", "g", ids[1]), ("second", "f", ids[2])]


def test_ids_of_nine_characters_where_the_template_demands_them():
    history = (called(f="call_abc", g="abcDEF123"), {"role": "tool", "tool_call_id": "call_abc", "content": "x"})
    first, kept = (call["id"] for call in prepared(*history, wants_short_ids=True)[0]["tool_calls"])
    assert kept == "abcDEF123"
    assert len(first) == 9
    assert first.isalnum()
    assert results(prepared(*history, wants_short_ids=True)) == [("x", "f", first)]
    unnamed = prepared(called("f"), wants_short_ids=True)[0]["tool_calls"][0]["id"]
    assert len(unnamed) == 9
    assert unnamed.isalnum()


def test_results_within_the_message_of_their_calls_where_the_template_wants_them():
    messages = prepared(
        called(f="1", g="2"),
        {"role": "tool", "tool_call_id": "2", "content": "cold"},
        {"role": "tool", "tool_call_id": "1", "content": '{"t": 7}'},
        {"role": "assistant", "content": "Cold."},
        USER,
        called(f="3"),
        {"role": "tool", "tool_call_id": "3", "content": "x"},
        called(f="4"),
        embeds_results=True,
    )
    assert [message["role"] for message in messages] == ["assistant", "user", "assistant", "assistant"]
    first, second = {"name": "f", "response": {"t": 7}}, {"name": "g", "response": "cold"}
    assert messages[0]["tool_responses"] == [first, second]
    assert [message["content"] for message in messages] == ["Cold.", "hi", "", ""]
    assert messages[2]["tool_responses"] == [{"name": "f", "response": "x"}]
    assert "tool_responses" not in messages[3]


def test_system_texts_move_to_the_next_user_message_where_there_is_no_system_role():
    def system(text):
        return {"role": "system", "content": text}

    answer = {"role": "assistant", "content": "a"}
    messages = prepared(system("1"), system("2"), answer, USER, system("3"), supports_system=False)
    assert messages == [
        answer,
        {"role": "user", "content": "1\n2\nhi"},
        {"role": "user", "content": "3"},
    ]
    assert prepared(system("alone"), supports_system=False) == [{"role": "user", "content": "alone"}]


def test_typed_content_where_the_template_needs_it():
    messages = prepared(USER, {"role": "assistant", "content": ""}, requires_typed_content=True)
    assert [m["content"] for m in messages] == [[{"type": "text", "text": "hi"}], []]


def says(role, **fields):
    return {"role": role, "content": "x", **fields}


def parts(*content):
    return {"role": "assistant", "content": list(content)}


def calls(*tool_calls):
    return {"role": "assistant", "tool_calls": list(tool_calls)}


def arguments(text):
    return calls({"function": {"name": "f", "arguments": text}})


@pytest.mark.parametrize(
    ("message", "param", "words"),
    [
        ("hi", "", "must be an object, not a string"),
        ({"content": "x"}, ".role", "is missing"),
        (says(3), ".role", "must be a string, not a number"),
        (says("robot"), ".role", "expected one of system"),
        ({"role": "user"}, ".content", "All non-assistant messages must contain 'content'"),
        ({"role": "assistant"}, ".content", "needs 'content' or 'tool_calls'"),
        (calls(), ".content", "needs 'content' or 'tool_calls'"),
        ({"role": "user", "content": 5}, ".content", "must be a string or an array of parts, not a number"),
        (parts("x"), ".content[0]", "not a string"),
        (parts({}), ".content[0].type", "is missing"),
        (parts({"type": "text", "text": "a"}, {"type": "text"}), ".content[1].text", "is missing"),
        (parts({"type": "text", "text": 1}), ".content[0].text", "must be a string"),
        (parts({"type": "image_url", "image_url": {}}), ".content[0].type", "'image_url'"),
        (parts({"type": "input_audio"}), ".content[0].type", "'input_audio'"),
        (parts({"type": "refusal", "refusal": "no"}), ".content[0].type", "'refusal'"),
        (says("user", images=["aGk="]), ".images", "is not served"),
        (says("assistant", refusal="no"), ".refusal", "is not served"),
        (says("assistant", annotations=[{}]), ".annotations", "is not served"),
        (says("assistant", audio={"id": "a"}), ".audio", "is not served"),
        (says("assistant", function_call={}), ".function_call", "is not served"),
        (says("user", name=["n"]), ".name", "must be a string, not an array"),
        (says("user", reasoning="r"), ".reasoning", "belongs to assistant messages"),
        (says("assistant", thinking=1), ".thinking", "must be a string"),
        (says("user", tool_calls=[CALL]), ".tool_calls", "belongs to assistant messages"),
        (says("assistant", tool_calls={}), ".tool_calls", "must be an array, not an object"),
        (calls("f"), ".tool_calls[0]", "must be an object"),
        (calls(CALL, {"type": "custom"}), ".tool_calls[1].type", "only 'function'"),
        (calls({}), ".tool_calls[0].function", "must be an object, not null"),
        (calls({"function": {}}), ".tool_calls[0].function.name", "is missing"),
        (calls({**CALL, "id": 7}), ".tool_calls[0].id", "must be a string"),
        (arguments("{"), ".tool_calls[0].function.arguments", "is not valid JSON"),
        (arguments("[" * 100_000), ".tool_calls[0].function.arguments", "is nested deeper than 128"),
        (arguments('{"a": ' + "[" * 128 + "]" * 128 + "}"), ".tool_calls[0].function.arguments", "is nested deeper"),
        (arguments('{"a": {"b": 1, "b": 2}}'), ".tool_calls[0].function.arguments", "names 'b' twice"),
        (arguments('{"a": NaN}'), ".tool_calls[0].function.arguments", "is not valid JSON: NaN"),
        (arguments('{"a": -1e999}'), ".tool_calls[0].function.arguments", "out of range: -1e999"),
        (arguments('{"a": 1' + "0" * 5000 + "}"), ".tool_calls[0].function.arguments", "an integer out of range"),
        (arguments('{"a": ["\\ud800"]}'), ".tool_calls[0].function.arguments", "half of a surrogate pair"),
        (arguments("[1]"), ".tool_calls[0].function.arguments", "must be a JSON object, got an array"),
        (says("tool", tool_call_id="b"), ".tool_call_id", "no earlier tool call has this id"),
        (says("tool", tool_call_id=1), ".tool_call_id", "must be a string"),
    ],
)
def test_messages_that_cannot_be_honoured_are_refused_by_name(message, param, words):
    error = refused(USER, message)
    assert error.param == f"messages[1]{param}"
    assert words in error.message and error.message.startswith("messages[1]")


@pytest.mark.parametrize("raw", [None, "hi", {}, 3])
def test_messages_must_be_an_array(raw):
    with pytest.raises(BadRequest, match="'messages' must be an array"):
        prepare_messages(raw, Abilities())


def test_an_empty_conversation_is_refused():
    with pytest.raises(BadRequest, match="'messages' is empty"):
        prepare_messages([], Abilities())


def test_tool_history_is_refused_where_the_template_would_drop_it():
    assert (
        refused({"role": "assistant", "tool_calls": [CALL]}, supports_tool_calls=False).param
        == "messages[0].tool_calls"
    )
    assert refused({"role": "tool", "content": "x"}, supports_tool_calls=False).param == "messages[0].role"


NAMES = st.sampled_from(["type", "text", "function", "name"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["content", "name", "tool_calls", "tool_call_id", "tool_name", "reasoning", "thinking", "refusal", "images"]
ROLE = st.sampled_from(["system", "user", "assistant", "tool"])
MESSAGE = st.fixed_dictionaries({"role": ROLE | JSON}, optional=dict.fromkeys(FIELDS, JSON))


@given(st.lists(MESSAGE, max_size=3), st.booleans(), st.booleans(), st.booleans())
def test_any_json_is_prepared_or_refused_by_name(raw, system, typed, objects):
    abilities = Abilities(supports_system=system, requires_typed_content=typed, takes_object_arguments=objects)
    try:
        messages = prepare_messages(raw, abilities)
    except BadRequest as error:
        assert error.param is not None and error.param.startswith("messages")
        return
    for message in messages:
        assert message["role"] in ("system", "user", "assistant", "tool")
        assert isinstance(message["content"], list if typed else str)
        assert None not in message.values()
