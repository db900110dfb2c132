"""`golem-host bench`: how fast the models that the settings name compute here. The engine alone, no HTTP.

The host knows no model: what is worth timing, a plugin says (`golem_bench`).
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

from golem_host import logs
from golem_host.config import Settings
from golem_host.errors import OperatorError, RequestError
from golem_host.hookspecs import Workload
from golem_host.host import Host, host_version, model_line
from golem_host.kernels import library
from golem_host.lanes.job import Job
from golem_host.lanes.lane import Lane
from golem_host.plugins import PluginSet
from golem_host.registry import Resident
from golem_host.tables import table

ROUNDS = 5
"""How often a workload is timed, after one round that only warms up ..."""
ENOUGH_SECONDS = 30.0
"""... but no round begins later than this after the first one, once there are two."""


@dataclass(frozen=True)
class Timing:
    """Amounts per second of each round of a workload."""

    workload: Workload
    rates: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


def bench(settings: Settings, plugins: PluginSet, *, as_json: bool) -> int:
    """Load the models as `serve` does, time them one after the other, and print what came out."""
    logs.configure(settings["log-format"], settings["log-level"])
    return asyncio.run(_bench(Host(settings, plugins), as_json=as_json))


async def _bench(host: Host, *, as_json: bool) -> int:
    try:
        await host.start()
        found = [(resident, await _time_model(host, resident)) for resident in host.registry.all_residents()]
        if not any(timings for _, timings in found):
            raise OperatorError(f"plugin {', '.join(host.plugins.names)} does not say what to time (golem_bench)")
        print(_as_json(host, found) if as_json else _report(host, found))
    finally:
        await host.stop(drain=False)
    return 0


async def _time_model(host: Host, resident: Resident) -> list[Timing]:
    model = resident.model
    async with host.registry.use(model) as runtime:
        answers = host.plugins.ask(model.plugin, "golem_bench", model=model, runtime=runtime, settings=host.settings)
        timings = []
        for workload in [workload for answer in answers for workload in answer]:
            print(f"timing {model.name}: {workload.name}", file=sys.stderr)
            try:
                timings.append(await time_workload(runtime.lane, workload))
            except RequestError as error:
                raise OperatorError(f"{model.name}: {workload.name} failed: {error.message}") from error
        return timings


async def time_workload(lane: Lane, workload: Workload) -> Timing:
    """Run its rounds. Raises what a job failed with."""
    await _round(lane, workload, 0)
    rates: list[float] = []
    started = time.monotonic()
    while len(rates) < ROUNDS and (len(rates) < 2 or time.monotonic() - started < ENOUGH_SECONDS):
        rates.append(await _round(lane, workload, len(rates) + 1))
    return Timing(workload, rates)


async def _round(lane: Lane, workload: Workload, number: int) -> float:
    """Amount per second from the first job's start in line to the last one's end."""
    jobs = [Job[Any](request) for request in workload.requests(number)]
    started = time.monotonic()
    for job in jobs:
        lane.submit(job)
    results = [await job.result() for job in jobs]
    return workload.amount(results) / (max(job.ended or 0.0 for job in jobs) - started)


def _report(host: Host, found: list[tuple[Resident, list[Timing]]]) -> str:
    parts = [_engine(host)]
    for resident, timings in found:
        rows = [
            (
                timing.workload.name,
                f"{timing.median:.1f} {timing.workload.unit}/s",
                f"{min(timing.rates):.1f} to {max(timing.rates):.1f}",
            )
            for timing in timings
        ]
        parts.append(model_line(resident, host.settings))
        parts.append(table(("WORK", "MEDIAN", f"SEEN IN UP TO {ROUNDS} ROUNDS"), rows) if rows else "nothing to time")
    return "\n\n".join(parts)


def _engine(host: Host) -> str:
    return f"golem-host {host.version}, {host.settings['threads']} threads, kernels: {_kernels()}"


def _kernels() -> str:
    kernels = library.load()
    return kernels.isa if kernels else "none (torch)"


def _as_json(host: Host, found: list[tuple[Resident, list[Timing]]]) -> str:
    models = [
        {
            "name": resident.model.name,
            "path": str(resident.model.path),
            "family": resident.model.family,
            "quantization": resident.model.quantization,
            "size_bytes": resident.model.size_bytes,
            "device": resident.model.device,
            "load_seconds": resident.load_seconds,
            "works": [
                {
                    "name": timing.workload.name,
                    "unit": f"{timing.workload.unit}/s",
                    "median": timing.median,
                    "rates": timing.rates,
                }
                for timing in timings
            ],
        }
        for resident, timings in found
    ]
    threads = host.settings["threads"]
    return json.dumps(
        {"version": host_version(), "threads": threads, "kernels": _kernels(), "models": models}, indent=2
    )
