"""Ollama requests without anything to answer: they load the model, or unload it with `keep_alive` 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from golem_host.registry import KeepAlive, Model
from golem_host_chat.routes.ollama_bodies import Reply

if TYPE_CHECKING:
    from golem_host.host import Host


async def load_or_unload(host: Host, model: Model, keep_alive: KeepAlive, reply: Reply) -> dict[str, Any]:
    """Do what the request asks and say which it was."""
    if keep_alive == 0:
        await host.registry.unload(model)
        return reply.residency("unload")
    await host.registry.load(model, keep_alive)
    reply.loaded()
    return reply.residency("load")
