"""A server in a process of its own, and the clients people use."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anthropic
import ollama
import openai


class Clients:
    """The clients of OpenAI, Anthropic and Ollama, unmodified, for the server at `url`; no proxies and no retries."""

    def __init__(self, url: str) -> None:
        self.url = url
        http = openai.DefaultHttpxClient(trust_env=False)
        self.openai = openai.OpenAI(base_url=f"{url}/v1", api_key="anything", http_client=http, max_retries=0)
        self.anthropic = anthropic.Anthropic(
            base_url=url,
            api_key="anything",
            http_client=anthropic.DefaultHttpxClient(trust_env=False),
            max_retries=0,
        )
        self.ollama = ollama.Client(url, trust_env=False, timeout=120)

    def close(self) -> None:
        self.openai.close()
        self.anthropic.close()
        self.ollama._client.close()


@contextmanager
def server(*arguments: str) -> Iterator[Clients]:
    """Clients of `python ARGUMENTS`, a command that says `Ready: URL`; stopped at the end, which must be orderly."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GOLEM_")}
    process = subprocess.Popen([sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = next((match for line in process.stdout if (match := re.match(r"Ready: (\S+)", line))), None)
        assert ready, "the server ended without being ready"
        clients = Clients(ready[1])
        try:
            yield clients
        finally:
            clients.close()
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
