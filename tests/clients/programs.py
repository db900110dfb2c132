"""Run by GOLEM_CLIENTS_PYTHON with the address of a server and a model's name: LiteLLM, LangChain and the `llm` command
ask it `Hi`, streamed and not. Prints what each got, as one JSON object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is fetched from elsewhere

import litellm
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI

MESSAGES = [{"role": "user", "content": "Hi"}]


def by_litellm(model: str, base: str) -> list[str]:
    answer = litellm.completion(model=model, api_base=base, api_key="none", messages=MESSAGES)
    chunks = list(litellm.completion(model=model, api_base=base, api_key="none", messages=MESSAGES, stream=True))
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    return [answer.choices[0].message.content, answer.choices[0].finish_reason, streamed]


def by_langchain(chat: ChatOpenAI | ChatOllama) -> list[str]:
    answer = chat.invoke("Hi")
    finish = answer.response_metadata.get("finish_reason") or answer.response_metadata.get("done_reason")
    return [answer.content, finish, "".join(chunk.content for chunk in chat.stream("Hi"))]


def by_llm(url: str, name: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        entry = f'- model_id: here\n  model_name: {name}\n  api_base: "{url}/v1"\n'
        (Path(folder) / "extra-openai-models.yaml").write_text(entry)
        environment = {**os.environ, "LLM_USER_PATH": folder, "OPENAI_API_KEY": "none"}

        def ask(*words: str) -> str:
            command = [sys.executable, "-m", "llm", "-m", "here", *words, "Hi"]
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

        return [ask("--no-stream"), "stop", ask()]


def main(url: str, name: str) -> None:
    found = {
        "litellm, OpenAI": by_litellm(f"openai/{name}", f"{url}/v1"),
        "litellm, Ollama": by_litellm(f"ollama_chat/{name}", url),
        "LangChain's ChatOpenAI": by_langchain(ChatOpenAI(model=name, base_url=f"{url}/v1", api_key="none")),
        "LangChain's ChatOllama": by_langchain(ChatOllama(model=name, base_url=url)),
        "llm": by_llm(url, name),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
