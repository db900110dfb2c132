"""The running host: settings, plugins, models, devices. Routes are handed it; it knows nothing of any model."""

from __future__ import annotations

import asyncio
import logging
import time
from importlib.metadata import PackageNotFoundError, version

from golem_host.catalogue import Catalogue
from golem_host.config import Settings
from golem_host.devices.device import Device
from golem_host.devices.names import backend_maker, resolved
from golem_host.errors import OperatorError, Unavailable, UsageError
from golem_host.http.progress import Requests
from golem_host.parsers import show_size
from golem_host.plugins import PluginSet
from golem_host.registry import Model, Registry, Resident

log = logging.getLogger("golem_host")


class Host:
    """Everything a route needs: `settings`, `plugins`, `registry`, `catalogue` (models added while it runs), `devices`
    (by name), `requests` (those in progress), `version`.

    `started` is the epoch time at which the host was ready to answer, None while models load.
    """

    def __init__(self, settings: Settings, plugins: PluginSet) -> None:
        self.settings = settings
        self.plugins = plugins
        self.version = host_version()
        self.devices: dict[str, Device] = {}
        self.started: float | None = None
        self.stopping = False
        self.requests = Requests()
        self.catalogue = Catalogue(plugins, settings)
        named = [model for _, found in plugins.each("golem_models", settings=settings) for model in found]
        added = self.catalogue.own_models(named)
        self._require_models([*named, *added])
        for model in named:
            model.device = resolved(model.device)
        self._named = named
        self.registry = Registry(named, self.device_of, settings, cache_folder=settings["model-folder"])
        for model in added:
            self.registry.add(model)
        self.catalogue.attach(self.registry)

    def _require_models(self, models: list[Model]) -> None:
        for name in self.plugins.names:
            if self.plugins.serves_models(name) and not any(model.plugin == name for model in models):
                has_demo = not self.settings["demo"] and any(self.plugins.ask(name, "golem_demo"))
                raise UsageError(
                    f"plugin {name!r} is enabled without a model: give one with --{name}-model PATH"
                    f"{', or try a small one with --demo' if has_demo else ''}"
                )

    def device_of(self, model: Model) -> Device:
        """The device a model runs on, started when first asked for."""
        device = self.devices.get(model.device)
        if device is None:
            maker = backend_maker(model.device, self.settings)
            device = Device(model.device, maker, log_passes=self.settings["debug-batches"])
            device.on_failure = lambda lanes: self.registry.lanes_failed(lanes)
            device.start()
            self.devices[model.device] = device
        return device

    async def start(self) -> None:
        """Load every model that settings name; added ones wait for a request. Raises `OperatorError` naming the model
        that cannot be loaded.
        """
        self.registry.start()
        for model in self._named:
            try:
                await self.registry.load(model)
            except Exception as error:
                cause = error.__cause__ if isinstance(error.__cause__, OperatorError) else error
                raise OperatorError(f"model {model.name!r} cannot be loaded: {cause}") from error
        self.started = time.time()

    async def stop(self, *, drain: bool = True) -> None:
        """Refuse new work; with `drain` let what is in flight or waiting finish; then free models and devices."""
        self.stopping = True
        lanes = [lane for device in self.devices.values() for lane in device.lanes]
        for lane in lanes:
            lane.refuse(Unavailable("the host is stopping"))
        while drain and any(state["queued"] or state["running"] for state in (lane.state() for lane in lanes)):
            await asyncio.sleep(0.02)
        await self.registry.stop()
        for device in self.devices.values():
            await asyncio.to_thread(device.stop)


def model_line(resident: Resident, settings: Settings) -> str:
    """A model's start-up line: name, family, size, quantization, slots and context, device, load time."""
    model = resident.model
    facts = [
        f"{model.family} {model.parameter_size if model.parameter_count else ''}".strip(),
        f"{model.quantization} {show_size(model.size_bytes)}".strip(),
        model.describe(settings),
        model.device,
        f"loaded in {resident.load_seconds:.2f} s",
    ]
    return f"{model.name}: {', '.join(fact for fact in facts if fact.strip())}"


def host_version() -> str:
    try:
        return version("golem-host")
    except PackageNotFoundError:
        return "0.0.0+source"
