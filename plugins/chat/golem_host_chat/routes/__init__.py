"""The chat plugin's HTTP routes. Handlers load at app start: this module imports no torch and no web framework."""

from __future__ import annotations

from golem_host.api import Route

_HERE = "golem_host_chat.routes"

ROUTES: list[Route] = [
    *(
        Route(
            "POST",
            path,
            f"{_HERE}.openai_chat:chat_completions",
            dialect="openai",
            summary="Answer a conversation (OpenAI), whole or as server-sent events.",
        )
        for path in ("/v1/chat/completions", "/chat/completions")
    ),
    Route(
        "POST",
        "/v1/completions",
        f"{_HERE}.openai_completions:completions",
        dialect="openai",
        summary="Continue a raw prompt (OpenAI), whole or as server-sent events.",
    ),
    *(
        Route(
            "POST",
            path,
            f"{_HERE}.responses:responses",
            dialect="openai",
            summary="Answer a conversation of items (OpenAI's Responses), whole or as named server-sent events.",
        )
        for path in ("/v1/responses", "/responses")
    ),
    Route(
        "POST",
        "/v1/responses/input_tokens",
        f"{_HERE}.responses:input_tokens",
        dialect="openai",
        summary="How many tokens such a conversation's prompt has.",
    ),
    Route(
        "POST",
        "/v1/messages",
        f"{_HERE}.anthropic_messages:messages",
        dialect="anthropic",
        summary="Answer a conversation of content blocks (Anthropic), whole or as named server-sent events.",
    ),
    Route(
        "POST",
        "/v1/messages/count_tokens",
        f"{_HERE}.anthropic_messages:count_tokens",
        dialect="anthropic",
        summary="Count the tokens of such a conversation's prompt.",
    ),
    Route(
        "POST",
        "/api/chat",
        f"{_HERE}.ollama_chat:chat",
        dialect="ollama",
        summary="Answer a conversation (Ollama); an empty one loads or unloads the model.",
    ),
    Route(
        "POST",
        "/api/generate",
        f"{_HERE}.ollama_generate:generate",
        dialect="ollama",
        summary="Answer or continue a prompt (Ollama); an empty one loads or unloads the model.",
    ),
    Route(
        "POST",
        "/apply-template",
        f"{_HERE}.llama_prompts:apply_template",
        dialect="llama",
        summary="The prompt that a conversation becomes.",
    ),
    *(
        Route(
            "POST",
            f"{path}/input_tokens",
            f"{_HERE}.llama_prompts:input_tokens",
            dialect="openai",
            summary="How many tokens a conversation's prompt has.",
        )
        for path in ("/v1/chat/completions", "/chat/completions")
    ),
    Route(
        "POST",
        "/v1/chat/completions/control",
        f"{_HERE}.openai_control:control",
        dialect="openai",
        summary="End the thought of a streamed answer.",
    ),
    *(
        Route(
            "POST",
            path,
            f"{_HERE}.llama_completion:completion",
            dialect="llama",
            summary="Continue a raw prompt (llama-server), whole or as server-sent events.",
        )
        for path in ("/completion", "/completions")
    ),
    Route(
        "POST",
        "/infill",
        f"{_HERE}.llama_infill:infill",
        dialect="llama",
        summary="Write what is between two texts (llama-server), whole or as server-sent events.",
    ),
    Route("POST", "/tokenize", f"{_HERE}.llama_tokens:tokenize", dialect="llama", summary="Text to token ids."),
    Route("POST", "/detokenize", f"{_HERE}.llama_tokens:detokenize", dialect="llama", summary="Token ids to text."),
    Route(
        "GET",
        "/props",
        f"{_HERE}.llama_props:props",
        dialect="llama",
        summary="What is served: template, slots, sampling defaults.",
        head=True,
    ),
    Route("POST", "/props", f"{_HERE}.llama_props:change_props", dialect="llama", summary="Refused."),
    Route(
        "GET",
        "/slots",
        f"{_HERE}.llama_slots:slots",
        dialect="llama",
        summary="What each slot does.",
        head=True,
    ),
    Route(
        "POST",
        "/slots/{slot:str}",
        f"{_HERE}.llama_slots:slot_action",
        dialect="llama",
        summary="Save, restore or erase a slot (query action).",
    ),
]
