"""A host with an embedding model that does no mathematics: a text's vector is made of its token ids."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from golem_host.api import Job, Model, OneShotLane
from golem_host.devices.device import Device
from golem_host.host import Host
from golem_host.lanes.oneshot import Part
from golem_host.testing.fakes import FakeModel, FakePlugin, plugin_set
from golem_host.testing.inprocess import running, settings_of
from golem_host.testing.tiny_bert import tiny_bert_directory
from golem_host_embed.checkpoint import open_checkpoint
from golem_host_embed.model import EmbedModel
from golem_host_embed.routes import ROUTES
from golem_host_embed.tokens import Tokens

WIDTH = 8


def vector_of(tokens: Tokens) -> list[float]:
    """Not of length 1; of a pair, the score is the second segment's share."""
    ids = np.array(tokens.ids, np.float64)
    return [len(ids), *(float(np.cos(ids * (1 + k)).sum()) for k in range(WIDTH - 1))]


def score_of(tokens: Tokens) -> list[float]:
    return [sum(id for id, segment in zip(tokens.ids, tokens.segments, strict=True) if segment) / 8]


class ScriptedRuntime:
    """What the routes see of a loaded model."""

    def __init__(self, model: ScriptedModel, settings: Mapping[str, Any]) -> None:
        self.model = model
        self.context = model.context_length
        self.width = 1 if model.kind == "rerank" else WIDTH
        checkpoint = open_checkpoint(model.path)
        self.tokens = checkpoint.tokens()
        checkpoint.close()
        self.lane = OneShotLane(
            model.name,
            self._run,
            kind=model.kind,
            costs=lambda job: [len(text) for text in job.request],
            budget=1 << 30,  # nothing is cut here
            gather_below=0,
            gather_seconds=0.0,
            queue_limit=settings["queue"],
        )

    def job(self, texts: Sequence[Tokens]) -> Job[Any]:
        return Job(list(texts))

    def _run(self, batch: list[Part]) -> None:
        make = score_of if self.width == 1 else vector_of
        for job in (part.job for part in batch):
            self.model.before_pass()
            self.model.seen += job.request
            job.finish(np.array([make(text) for text in job.request], np.float32))

    def close(self) -> None:
        """Nothing is held."""


class ScriptedModel(EmbedModel):
    """`seen` are the texts its lane was given; `before_pass` is called on the device thread before each request."""

    def __init__(self, path: Path, *, name: str) -> None:
        super().__init__(path, name=name)
        self.embedding_length = WIDTH
        self.seen: list[Tokens] = []
        self.before_pass: Callable[[], None] = lambda: None

    def load(self, device: Device, settings: Mapping[str, Any], progress: Callable[[float], None]) -> Any:
        return ScriptedRuntime(self, settings)


@dataclass(frozen=True)
class Served:
    """A host in this event loop with `scripted` (context 32), `ranker` and a chat model, and a client of it."""

    host: Host
    client: httpx.AsyncClient
    model: ScriptedModel
    ranker: ScriptedModel

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.client.post(path, json=body)


@asynccontextmanager
async def serving(
    folder: Path, *, settings: Mapping[str, str] | None = None, ranks: bool = True
) -> AsyncIterator[Served]:
    scripted = ScriptedModel(tiny_bert_directory(folder / "embed", max_seq_length=32), name="scripted")
    ranker = ScriptedModel(tiny_bert_directory(folder / "rank", classifier=True, context=32), name="ranker")
    models: list[Model] = [scripted, *([ranker] if ranks else [])]
    chat = FakeModel("talker", path=folder / "talker.gguf")
    plugins = plugin_set(embed=FakePlugin(models, ROUTES), fake=FakePlugin([chat]))
    async with running(settings_of(folder, settings), plugins) as (host, client):
        yield Served(host, client, scripted, ranker)
