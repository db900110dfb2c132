"""What OpenAPI says of the chat plugin's routes. The README's tables say what becomes of each field."""

from __future__ import annotations

from collections.abc import Mapping

from golem_host.api import Operation
from golem_host.http.ollama_options import LIMITS, SAMPLING
from golem_host.http.schemas import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    OBJECT,
    STRING,
    Schema,
    array_of,
    body,
    either,
    one_of,
)

SSE = "text/event-stream"
LINES = "application/x-ndjson"

_TEXTS = either(STRING, array_of({"type": "string"}))
_KEEP_ALIVE = either(STRING, NUMBER)
_TEXT_PART = body(("type", "text"), type={"const": "text"}, text={"type": "string"})
_CONTENT = either(STRING, array_of(_TEXT_PART))
_TOOL = body(
    ("type", "function"),
    type={"const": "function"},
    function=body(("name",), name={"type": "string"}, description=STRING, parameters={"type": ["object", "null"]}),
)
_CALL = body(
    ("function",),
    id=STRING,
    type={"const": "function"},
    function=body(("name",), name={"type": "string"}, arguments=either(STRING, OBJECT)),
)
_MESSAGE = body(
    ("role", "content"),
    role={"enum": ["system", "developer", "user", "assistant", "tool"]},
    content=_CONTENT,
    name=STRING,
    reasoning_content=STRING,
    tool_calls=array_of(_CALL),
    tool_call_id=STRING,
)
_MESSAGES: Schema = {"type": "array", "items": _MESSAGE, "minItems": 1}
_TOOL_CHOICE = either(one_of("auto", "none", "required"), OBJECT)
_EFFORT = one_of("none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max")


def _nullable(schema: Schema) -> Schema:
    return either(schema, {"type": "null"})


_SAMPLING: Mapping[str, Schema] = {
    **dict.fromkeys(
        (
            *("temperature", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc_probability", "xtc_threshold"),
            *("dynatemp_range", "dynatemp_exponent", "repeat_penalty", "frequency_penalty", "presence_penalty"),
            *("dry_multiplier", "dry_base", "mirostat_tau", "mirostat_eta", "adaptive_target", "adaptive_decay"),
        ),
        NUMBER,
    ),
    **dict.fromkeys(
        (
            *("top_k", "min_keep", "repeat_last_n", "seed", "dry_allowed_length", "dry_penalty_last_n", "mirostat"),
            *("n_probs", "id_slot", "t_max_predict_ms", "n_indent", "n", "n_cmpl"),
            *("max_tokens", "max_completion_tokens", "n_predict", "sse_ping_interval"),
        ),
        INTEGER,
    ),
    **dict.fromkeys(
        (
            *("ignore_eos", "cache_prompt", "stream", "post_sampling_probs", "timings_per_token", "return_progress"),
            *("return_tokens", "verbose"),
        ),
        BOOLEAN,
    ),
    "dry_sequence_breakers": array_of({"type": "string"}),
    "samplers": _TEXTS,
    "logit_bias": either({"type": ["object", "null"]}, {"type": "array", "items": {"type": "array"}}),
    "stop": _TEXTS,
    "stream_options": _nullable(body(include_usage=BOOLEAN)),
    "keep_alive": _KEEP_ALIVE,
    "model": STRING,
    "response_format": body(("type",), type={"enum": ["text", "json_object", "json_schema"]}),
    "json_schema": {"type": ["object", "null"]},
    "grammar": STRING,
    "response_fields": array_of({"type": "string"}),
}
_CHAT = body(
    ("messages",),
    messages=_MESSAGES,
    **_SAMPLING,
    logprobs=BOOLEAN,
    top_logprobs=INTEGER,
    tools=array_of(_TOOL),
    tool_choice=_TOOL_CHOICE,
    parallel_tool_calls=BOOLEAN,
    chat_template_kwargs=body(enable_thinking=BOOLEAN),
    reasoning_effort=_EFFORT,
    reasoning=body(effort=_EFFORT),
    reasoning_format=one_of("auto", "none", "deepseek"),
    reasoning_budget_tokens=INTEGER,
    thinking_budget_tokens=INTEGER,
    reasoning_control=BOOLEAN,
    add_generation_prompt=BOOLEAN,
    continue_final_message=either(BOOLEAN, one_of("content", "reasoning_content")),
)
_PROMPT = either(
    {"type": "string"},
    {"type": "array", "minItems": 1, "items": either({"type": "string"}, {"type": "integer"})},
)
_COMPLETIONS = body(
    ("prompt",), prompt=_PROMPT, **_SAMPLING, logprobs=either(INTEGER, BOOLEAN), echo=BOOLEAN, suffix=STRING,
    best_of=INTEGER,
)  # fmt: skip
_NATIVE_ANSWER = either(OBJECT, {"type": "array", "items": OBJECT})
_SEGMENTS = either(STRING, array_of(either({"type": "string"}, {"type": "integer"})))
_NATIVE_COMPLETION = Operation(body=body(("prompt",), prompt=_PROMPT, **_SAMPLING), answer=_NATIVE_ANSWER, streams=SSE)
_INFILL = body(
    ("input_prefix", "input_suffix"), input_prefix=_SEGMENTS, input_suffix=_SEGMENTS, prompt=STRING,
    input_extra=array_of(body(("text",), text={"type": "string"}, filename=STRING)), **_SAMPLING,
)  # fmt: skip
_USAGE = body(
    ("prompt_tokens", "completion_tokens", "total_tokens"),
    prompt_tokens={"type": "integer"},
    completion_tokens={"type": "integer"},
    total_tokens={"type": "integer"},
)


def _choices(object_: str, choice: Schema) -> Schema:
    return body(
        ("id", "object", "created", "model", "choices", "usage"),
        id={"type": "string"},
        object={"const": object_},
        created={"type": "integer"},
        model={"type": "string"},
        choices={"type": "array", "items": choice},
        usage=_USAGE,
    )


_FINISH: Schema = {"enum": ["stop", "length", "tool_calls"]}
_CHAT_ANSWER = _choices(
    "chat.completion",
    body(("index", "message", "finish_reason"), index={"type": "integer"}, message=OBJECT, finish_reason=_FINISH),
)
_COMPLETIONS_ANSWER = _choices(
    "text_completion",
    body(("index", "text", "finish_reason"), index={"type": "integer"}, text={"type": "string"}, finish_reason=_FINISH),
)

_ITEM = either(
    body(
        ("role", "content"), role={"enum": ["user", "system", "developer", "assistant"]},
        content=either({"type": "string"}, array_of(OBJECT)),
    ),
    body(("type", "call_id", "name", "arguments"), type={"const": "function_call"}, call_id={"type": "string"},
         name={"type": "string"}, arguments={"type": "string"}),
    body(("type", "call_id", "output"), type={"const": "function_call_output"}, call_id={"type": "string"},
         output={"type": "string"}),
)  # fmt: skip
_RESPONSES = body(
    ("input",),
    input=either({"type": "string"}, {"type": "array", "items": _ITEM}),
    instructions=STRING,
    model=STRING,
    stream=BOOLEAN,
    max_output_tokens=INTEGER,
    top_logprobs=INTEGER,
    temperature=NUMBER,
    top_p=NUMBER,
    tools=array_of(body(("type", "name"), type={"const": "function"}, name={"type": "string"})),
    tool_choice=_TOOL_CHOICE,
    parallel_tool_calls=BOOLEAN,
    reasoning=body(effort=_EFFORT),
    text=body(format=OBJECT),
    include=array_of({"type": "string"}),
    metadata={"type": ["object", "null"]},
    store=BOOLEAN,
    previous_response_id=STRING,
)
_BLOCK = body(("type", "text"), type={"const": "text"}, text={"type": "string"})
_MESSAGES_API = body(
    ("messages",),
    messages={
        "type": "array",
        "minItems": 1,
        "items": body(
            ("role", "content"),
            role={"enum": ["user", "assistant"]},
            content=either({"type": "string"}, array_of(_BLOCK)),
        ),
    },
    system=either(STRING, array_of(_BLOCK)),
    model=STRING,
    stream=BOOLEAN,
    max_tokens=INTEGER,
    temperature=NUMBER,
    top_p=NUMBER,
    top_k=INTEGER,
    stop_sequences=array_of({"type": "string"}),
    tools=array_of(body(("name", "input_schema"), name={"type": "string"}, input_schema=OBJECT)),
    tool_choice=body(("type",), type={"enum": ["auto", "any", "tool", "none"]}),
    thinking=body(("type",), type={"enum": ["enabled", "disabled", "adaptive"]}, budget_tokens=INTEGER),
    output_config={"type": ["object", "null"]},
)

_WHOLE = ("top_k", "repeat_last_n", "seed", "min_keep", "mirostat", "num_ctx", "num_predict")
_OPTIONS: Schema = {
    "type": ["object", "null"],
    "properties": {
        **dict.fromkeys((*SAMPLING, *LIMITS), NUMBER),
        **dict.fromkeys(_WHOLE, INTEGER),
        "stop": _TEXTS,
    },
}
_OLLAMA: Mapping[str, Schema] = {
    "model": {"type": "string"},
    "stream": BOOLEAN,
    "keep_alive": _KEEP_ALIVE,
    "options": _OPTIONS,
    "think": either(BOOLEAN, one_of("low", "medium", "high", "max")),
    "truncate": BOOLEAN,
    "shift": BOOLEAN,
    "format": either(one_of("json", ""), OBJECT),
    "logprobs": BOOLEAN,
    "top_logprobs": INTEGER,
}
_OLLAMA_CHAT = body(("model",), messages=array_of(_MESSAGE), tools=array_of(_TOOL), **_OLLAMA)
_OLLAMA_GENERATE = body(
    ("model",), prompt=STRING, system=STRING, raw=BOOLEAN, context=array_of({"type": "integer"}), suffix=STRING,
    **_OLLAMA,
)  # fmt: skip
_DONE: Mapping[str, Schema] = {"model": {"type": "string"}, "created_at": {"type": "string"}, "done": {"const": True}}

_COUNT = body(("input_tokens",), input_tokens={"type": "integer"})
_CHAT_OPERATION = Operation(body=_CHAT, answer=_CHAT_ANSWER, streams=SSE)
_RESPONSES_OPERATION = Operation(
    body=_RESPONSES, answer=body(("id", "output", "status"), output=array_of(OBJECT)), streams=SSE
)

_MESSAGES_ANSWER = body(("id", "content", "stop_reason", "usage"), content=array_of(OBJECT))

OPERATIONS: Mapping[str, Operation] = {
    "POST /v1/chat/completions": _CHAT_OPERATION,
    "POST /chat/completions": _CHAT_OPERATION,
    "POST /v1/chat/completions/input_tokens": Operation(body=_CHAT, answer=_COUNT),
    "POST /chat/completions/input_tokens": Operation(body=_CHAT, answer=_COUNT),
    "POST /v1/chat/completions/control": Operation(
        body=body(("id", "action"), id={"type": "string"}, action={"const": "reasoning_end"}, model=STRING),
        answer=body(("success",), success={"type": "boolean"}, message={"type": "string"}),
    ),
    "POST /apply-template": Operation(body=_CHAT, answer=body(("prompt",), prompt={"type": "string"})),
    "POST /v1/completions": Operation(body=_COMPLETIONS, answer=_COMPLETIONS_ANSWER, streams=SSE),
    "POST /v1/responses": _RESPONSES_OPERATION,
    "POST /responses": _RESPONSES_OPERATION,
    "POST /v1/responses/input_tokens": Operation(body=_RESPONSES, answer=_COUNT),
    "POST /v1/messages": Operation(body=_MESSAGES_API, answer=_MESSAGES_ANSWER, streams=SSE),
    "POST /v1/messages/count_tokens": Operation(body=_MESSAGES_API, answer=_COUNT),
    "POST /api/chat": Operation(
        body=_OLLAMA_CHAT, answer=body((*_DONE, "message"), **_DONE, message=OBJECT), streams=LINES
    ),
    "POST /api/generate": Operation(
        body=_OLLAMA_GENERATE, answer=body((*_DONE, "response"), **_DONE, response={"type": "string"}), streams=LINES
    ),
    "POST /completion": _NATIVE_COMPLETION,
    "POST /completions": _NATIVE_COMPLETION,
    "POST /infill": Operation(
        body=_INFILL,
        answer=_NATIVE_ANSWER,
        streams=SSE,
        statuses={501: "The model's vocabulary has no tokens for that"},
    ),
    "POST /tokenize": Operation(
        body=body(
            content=either(STRING, array_of(either({"type": "string"}, {"type": "integer"}))),
            add_special=BOOLEAN,
            parse_special=BOOLEAN,
            with_pieces=BOOLEAN,
            model=STRING,
        ),
        answer=body(("tokens",), tokens={"type": "array"}),
    ),
    "POST /detokenize": Operation(
        body=body(tokens=array_of({"type": "integer"}), model=STRING),
        answer=body(("content",), content={"type": "string"}),
    ),
    "GET /slots": Operation(
        answer={"type": "array", "items": OBJECT}, statuses={501: "The host was started with --no-slots"}
    ),
    "POST /slots/{slot:str}": Operation(
        body=body(filename=STRING, model=STRING),
        query={"action": {"enum": ["save", "restore", "erase"]}, "model": STRING},
        statuses={501: "The host was started without --slot-save-path"},
    ),
    "POST /props": Operation(statuses={501: "Nothing can be changed"}),
}
