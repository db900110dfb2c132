"""llama-server's figures: what a real lane reads and draws, told by `/metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from golem_host.hookspecs import Metric, hookimpl
from golem_host.testing.fakes import FakePlugin, plugin_set
from golem_host.testing.inprocess import running, settings_of
from golem_host.testing.tiny import tiny_gguf
from golem_host_chat import plugin
from golem_host_chat.counts import Counts, metrics
from golem_host_chat.generation import Timings
from golem_host_chat.model import ChatModel
from golem_host_chat.routes import ROUTES

PREFIX = "llamacpp:"


class Counted(FakePlugin):
    """The chat plugin's figures, of models that are given."""

    @hookimpl
    def golem_metrics(self, host: Any) -> Sequence[Metric]:
        return plugin.golem_metrics(host)


async def scraped(client: httpx.AsyncClient) -> dict[str, float]:
    families = text_string_to_metric_families((await client.get("/metrics")).text)
    samples = [sample for family in families for sample in family.samples]
    return {each.name.removeprefix(PREFIX): each.value for each in samples if each.name.startswith(PREFIX)}


def timings(read: int, read_ms: float, drawn: int, drawn_ms: float, *, cached: int = 0) -> Timings:
    return Timings(0.0, read, read_ms, cached, drawn, drawn_ms)


def test_a_served_model_counts_and_goes_on_after_a_load(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ChatModel(tiny_gguf(tmp_path / "tiny.gguf", "qwen3"), name="m")
        settings = settings_of(tmp_path, {"context": "256", "parallel": "2"}, plugin.golem_settings())
        async with running(settings, plugin_set(chat=Counted([model], ROUTES))) as (host, client):
            zero = await scraped(client)
            assert set(zero.values()) == {0}

            async def ask(prompt: list[int]) -> dict[str, int]:
                body = {"prompt": prompt, "max_tokens": 5, "ignore_eos": True}
                return (await client.post("/v1/completions", json=body)).json()["timings"]

            first = await ask(list(range(40, 70)))
            second = await ask([*range(40, 70), 7, 8])
            told = await scraped(client)
            assert second["cache_n"] == 30
            assert told["prompt_tokens_total"] == first["prompt_n"] + second["prompt_n"] == 32
            assert told["prompt_tokens_cached_total"] == 30
            assert told["tokens_predicted_total"] == 10
            assert told["n_decode_total"] >= 10 and told["n_busy_slots_per_decode"] == 1
            # The last token drawn is not read any more.
            assert told["n_tokens_max"] == 32 + 4
            assert told["prompt_tokens_seconds"] > 0 and told["predicted_tokens_seconds"] > 0
            assert told["requests_processing"] == told["requests_deferred"] == 0

            quiet = await scraped(client)
            assert quiet["prompt_tokens_seconds"] == quiet["predicted_tokens_seconds"] == 0
            assert quiet["prompt_tokens_total"] == 32

            await host.registry.unload(model)
            assert (await scraped(client))["tokens_predicted_total"] == 10
            await ask([9, 10])
            assert (await scraped(client))["tokens_predicted_total"] == 15

    asyncio.run(scenario())


def test_figures_of_several_models_are_sums_and_rates_begin_anew() -> None:
    one, two = Counts(), Counts()
    one.ended(timings(100, 500.0, 10, 1000.0, cached=7), 110)
    two.ended(timings(50, 250.0, 20, 1000.0), 70)
    for conversations in (1, 3):
        one.passed(conversations)

    def figures() -> dict[str, float]:
        told = metrics([one, two], running=2, waiting=5)
        return {each.name.removeprefix(PREFIX): each.samples[0][1] for each in told}

    told = figures()
    assert told["prompt_tokens_total"] == 150 and told["prompt_seconds_total"] == 0.75
    assert told["prompt_tokens_cached_total"] == 7
    assert told["tokens_predicted_total"] == 30 and told["tokens_predicted_seconds_total"] == 2.0
    assert told["prompt_tokens_seconds"] == 200.0 and told["predicted_tokens_seconds"] == 15.0
    assert told["n_tokens_max"] == 110 and told["n_busy_slots_per_decode"] == 2.0
    assert told["requests_processing"] == 2 and told["requests_deferred"] == 5
    two.ended(timings(0, 0.0, 30, 1500.0), 20)
    told = figures()
    assert told["predicted_tokens_seconds"] == 20.0 and told["prompt_tokens_seconds"] == 0.0
    assert told["tokens_predicted_total"] == 60 and told["n_tokens_max"] == 110
