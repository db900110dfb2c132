"""Run by GOLEM_CLIENTS_PYTHON with the address of a server and a model's name: LiteLLM, LangChain and the `llm` command
ask it `Hi`, streamed and not, and let it call a tool. Prints what each got, as one JSON object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is fetched from elsewhere

import litellm
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI

MESSAGES = [{"role": "user", "content": "Hi"}]
ASKING = [{"role": "user", "content": "forecast"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "description": "How it is outside", "parameters": PARAMETERS},
}
FUNCTION = """
def get_weather(city: str) -> str:
    "How it is outside"
    return f"sunny there in {city}"
"""
Called = list[list[Any]]
"""Names and arguments of the calls of a whole answer, and of a streamed one."""


def by_litellm(model: str, base: str) -> list[str]:
    answer = litellm.completion(model=model, api_base=base, api_key="none", messages=MESSAGES)
    chunks = list(litellm.completion(model=model, api_base=base, api_key="none", messages=MESSAGES, stream=True))
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    return [answer.choices[0].message.content, answer.choices[0].finish_reason, streamed]


def called_by_litellm(model: str, base: str) -> Called:
    asked = {"model": model, "api_base": base, "api_key": "none", "messages": ASKING, "tools": [WEATHER]}
    whole = litellm.completion(**asked)
    streamed = litellm.stream_chunk_builder(list(litellm.completion(**asked, stream=True)), messages=ASKING)
    calls = [answer.choices[0].message.tool_calls for answer in (whole, streamed)]
    assert [answer.choices[0].finish_reason for answer in (whole, streamed)] == ["tool_calls"] * 2
    return [[[call.function.name, json.loads(call.function.arguments)] for call in each] for each in calls]


def called_by_langchain(chat: ChatOpenAI | ChatOllama) -> Called:
    bound = chat.bind_tools([WEATHER])
    streamed = None
    for chunk in bound.stream("forecast"):
        streamed = chunk if streamed is None else streamed + chunk
    answers = [bound.invoke("forecast"), streamed]
    assert [answer.content.strip() for answer in answers] == ["I look."] * 2
    return [[[call["name"], call["args"]] for call in answer.tool_calls] for answer in answers]


def by_langchain(chat: ChatOpenAI | ChatOllama) -> list[str]:
    answer = chat.invoke("Hi")
    finish = answer.response_metadata.get("finish_reason") or answer.response_metadata.get("done_reason")
    return [answer.content, finish, "".join(chunk.content for chunk in chat.stream("Hi"))]


def by_llm(url: str, name: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        entry = f'- model_id: here\n  model_name: {name}\n  api_base: "{url}/v1"\n  supports_tools: true\n'
        (Path(folder) / "extra-openai-models.yaml").write_text(entry)
        environment = {**os.environ, "LLM_USER_PATH": folder, "OPENAI_API_KEY": "none"}

        def ask(*words: str) -> str:
            command = [sys.executable, "-m", "llm", "-m", "here", *words]
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

        tools = ("--functions", FUNCTION, "forecast")
        for answer in (ask("--no-stream", *tools), ask(*tools)):
            assert answer.startswith("I look.") and answer.endswith("Sunny."), answer
        return [ask("--no-stream", "Hi"), "stop", ask("Hi")]


def main(url: str, name: str) -> None:
    openai = ChatOpenAI(model=name, base_url=f"{url}/v1", api_key="none")
    ollama = ChatOllama(model=name, base_url=url)
    called = {
        "litellm, OpenAI": called_by_litellm(f"openai/{name}", f"{url}/v1"),
        "litellm, Ollama": called_by_litellm(f"ollama_chat/{name}", url),
        "LangChain's ChatOpenAI": called_by_langchain(openai),
        "LangChain's ChatOllama": called_by_langchain(ollama),
    }
    found = {
        "litellm, OpenAI": by_litellm(f"openai/{name}", f"{url}/v1"),
        "litellm, Ollama": by_litellm(f"ollama_chat/{name}", url),
        "LangChain's ChatOpenAI": by_langchain(openai),
        "LangChain's ChatOllama": by_langchain(ollama),
        "llm": by_llm(url, name),
    }
    print(json.dumps({"said": found, "called": called}))


if __name__ == "__main__":
    main(*sys.argv[1:])
