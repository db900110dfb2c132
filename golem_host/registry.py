"""The models this host can serve: their names, whether they are in memory, and for how long they stay there."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from golem_host import collector
from golem_host.devices.device import Device
from golem_host.digests import DigestCache
from golem_host.errors import BadRequest, InternalError, ModelFileError, NotFound, OperatorError
from golem_host.http.known_routes import routes_of
from golem_host.lanes.lane import Lane
from golem_host.lanes.tally import Tally

if TYPE_CHECKING:
    from golem_host.derived import DerivedModel
    from golem_host.layer import Layer

log = logging.getLogger("golem_host.registry")

REAP_SECONDS = 1.0
"""How often models whose keep-alive has run out are looked for."""


class Unset:
    """The type of `UNSET`: a keep-alive the request did not name."""


UNSET = Unset()
KeepAlive = float | None | Unset
"""Seconds a model stays in memory after its last request; None for ever; UNSET the host's default."""


class Runtime(Protocol):
    """A loaded model. The plugin's own class adds what its routes need (tokenizer, template)."""

    @property
    def lane(self) -> Lane: ...

    def close(self) -> None:
        """Give weights and caches back; called after the lane left its device."""
        ...


class Model(ABC):
    """A model known from its file's header; nothing of it is loaded.

    `kind` names what it answers (`chat`, `embed`, ...): routes ask the registry for a name of their kind. `modified` is
    seconds since the epoch, `size_bytes` the bytes of the weight files, `parameter_count` elements of all tensors.
    """

    name: str
    kind: str
    plugin: str
    path: Path
    device: str = "cpu"
    aliases: tuple[str, ...] = ()
    format: str = "gguf"
    family: str = ""
    architecture: str = ""
    parameter_count: int = 0
    quantization: str = ""
    size_bytes: int = 0
    context_length: int = 0
    embedding_length: int = 0
    capabilities: tuple[str, ...] = ()
    modified: float = 0.0
    base: Model | None = None
    """Of a derived model: the one whose weights answer."""

    @abstractmethod
    def load(self, device: Device, settings: Mapping[str, Any], progress: Callable[[float], None]) -> Runtime:
        """Load on a worker thread; `progress` takes the share done, 0 to 1. Raises `ModelFileError`."""

    def memory_bytes(self, settings: Mapping[str, Any]) -> int:
        """Bytes the loaded model takes, caches included."""
        return self.size_bytes

    def show(self, verbose: bool) -> dict[str, Any]:
        """What `/api/show` adds: template, parameters, model_info (metadata keys), tensors, license."""
        return {}

    def describe(self, settings: Mapping[str, Any]) -> str:
        """The end of the start-up line: slots, context."""
        return ""

    def view(self, runtime: Runtime) -> Runtime:
        """What routes get of the loaded model."""
        return runtime

    def prepare_layer(self, layer: Layer) -> Any:
        """Check what a model derived from this one adds, on a worker thread; what is returned is kept with it.

        Raises BadRequest naming what cannot be honoured: here, everything.
        """
        for name, value in layer.to_json().items():
            if value and name != "license":
                raise BadRequest(f"'{name}' means nothing to model '{self.name}', which serves {self.kind}", param=name)
        return None

    def layer_capabilities(self, prepared: Any) -> tuple[str, ...]:
        """What a model with such a layer can do; `prepared` is what `prepare_layer` made of it."""
        return self.capabilities

    def layered(self, runtime: Runtime, derived: DerivedModel) -> Runtime:
        """The loaded model as routes see it through `derived`. Raises BadRequest for what cannot be honoured now."""
        return runtime

    @property
    def parameter_size(self) -> str:
        """The parameter count as people write it: `134.52M`, `7.6B`."""
        for unit, size in (("B", 1e9), ("M", 1e6), ("K", 1e3)):
            if self.parameter_count >= size:
                return f"{self.parameter_count / size:.4g}{unit}"
        return str(self.parameter_count)


class Resident:
    """A model's place in the registry: loaded or not, who uses it, when it leaves memory."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.asked = model
        """Itself or the derived model whose request loaded it."""
        self.runtime: Runtime | None = None
        self.error: BaseException | None = None
        """Why the last load failed."""
        self.users = 0
        self.loading = False
        self.load_seconds = 0.0
        self.tally = Tally()
        """What its lanes have done, the present one and those before."""
        self.keep: float | None = None
        """Seconds it stays after its last request, as the request that came last said; None: for ever."""
        self.expires_at: float | None = None
        """Seconds since the epoch; None: stays."""
        self.lock = asyncio.Lock()
        """Held while loading or unloading."""


class Registry:
    """Models by name, loaded when asked for. Everything runs on the event loop; loading itself on worker threads."""

    def __init__(
        self,
        models: Sequence[Model],
        device_of: Callable[[Model], Device],
        settings: Mapping[str, Any],
        *,
        cache_folder: Path,
    ) -> None:
        self._residents: dict[str, Resident] = {}
        self._derived: dict[str, DerivedModel] = {}
        self._leaving: list[Resident] = []
        """Removed while in memory."""
        self._settings = settings
        self._device_of = device_of
        self._digests = DigestCache(cache_folder / "digests.json")
        self._reaper: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reloads: set[asyncio.Task[None]] = set()
        for model in models:
            first = self.find(model.name, aliases=False)
            if first is not None:
                raise OperatorError(
                    f"two models are named {model.name!r}: {first.path} and {model.path}; name one of them: NAME=PATH"
                )
            self._residents[model.name] = Resident(model)
        self._first = frozenset(self._residents)
        """The models served from the start: what requests without a name mean does not change with others."""

    # Names

    def models(self) -> list[Model]:
        """All of them, derived ones last."""
        return [*(resident.model for resident in self._residents.values()), *self._derived.values()]

    def add(self, model: Model) -> None:
        """Serve one more; the caller has seen to it that its name is free."""
        self._residents[model.name] = Resident(model)

    def add_derived(self, model: DerivedModel) -> None:
        """The same for one derived from a model that is served."""
        self._derived[model.name] = model

    def remove(self, model: Model) -> None:
        """Serve it no more. Requests that use it go on; then it leaves memory, unless its base is served still."""
        self._derived.pop(model.name, None)
        resident = self._residents.pop(model.name, None)
        if resident is not None:
            resident.keep = resident.expires_at = 0.0
            self._leaving.append(resident)

    def is_added(self, model: Model) -> bool:
        """Whether a request added it, rather than the settings naming it."""
        return model.name not in self._first

    def _resident(self, model: Model) -> Resident:
        resident = self._residents.get((model.base or model).name)
        if resident is None:
            raise NotFound(f"model '{model.name}' not found", code="model_not_found", param="model")
        return resident

    def residents(self) -> list[Resident]:
        """The models in memory, the one that stays longest first."""
        loaded = [resident for resident in self._residents.values() if resident.runtime is not None]
        return sorted(loaded, key=lambda r: float("inf") if r.expires_at is None else r.expires_at, reverse=True)

    def loaded(self, model: Model) -> Runtime | None:
        """The model's runtime if it is in memory. Nothing keeps it there: for looking at it, not for work."""
        runtime = self._resident(model).runtime
        return None if runtime is None else model.view(runtime)

    def all_residents(self) -> list[Resident]:
        return list(self._residents.values())

    def find(self, name: str, *, aliases: bool = True) -> Model | None:
        """The model of that name: case ignored, with or without `:latest` and `.gguf`.

        An alias counts where no model has that name and only one has that alias.
        """
        wanted = _plain(name)
        named = [model for model in self.models() if _plain(model.name) == wanted]
        if not named and aliases:
            named = [model for model in self.models() if wanted in map(_plain, model.aliases)]
        return named[0] if len(named) == 1 else None

    def resolve(self, name: str | None, kind: str) -> Model:
        """The model of `kind` a request means by `name` (decisions.md C19).

        Raises `NotFound` for an unknown name and `BadRequest` for a model of another kind.
        """
        bases = [resident.model for resident in self._residents.values() if resident.model.kind == kind]
        of_kind = [model for model in bases if model.name in self._first] or bases
        found = self.find(name) if name else None
        if found is not None and found.kind == kind:
            return found
        if found is not None:
            raise BadRequest(
                f"model '{name}' serves {found.kind}, not {kind}; use {routes_of(found.kind)}", param="model"
            )
        if not of_kind:
            raise NotFound(
                f"no {kind} model is served; start the host with --enable {kind} and a model", code="model_not_found"
            )
        any_model = self._settings.get("any-model")
        if len(of_kind) == 1 and (not name or any_model):
            return of_kind[0]
        if not name:
            raise BadRequest(f"model is required; one of: {', '.join(model.name for model in of_kind)}", param="model")
        raise NotFound(f"model '{name}' not found", code="model_not_found", param="model")

    # Residency

    @asynccontextmanager
    async def use(self, model: Model, keep_alive: KeepAlive = UNSET) -> AsyncIterator[Runtime]:
        """The loaded model, loading it if needed. It stays while in use; the keep-alive clock starts at exit.

        Of requests at the same time the keep-alive of the one that came last counts, whichever ends last.
        """
        resident = self._resident(model)
        resident.users += 1
        resident.keep = self._settings.get("keep-alive") if isinstance(keep_alive, Unset) else keep_alive
        try:
            if resident.runtime is None:
                resident.asked = model
            yield model.view(await self._loaded(resident))
        finally:
            resident.users -= 1
            resident.expires_at = None if resident.keep is None else time.time() + resident.keep

    async def load(self, model: Model, keep_alive: KeepAlive = UNSET) -> None:
        async with self.use(model, keep_alive):
            pass

    async def unload(self, model: Model) -> None:
        """Take a model out of memory as soon as no request uses it."""
        resident = self._resident(model)
        resident.keep = resident.expires_at = 0.0
        await self._unload_expired(resident)

    async def _loaded(self, resident: Resident) -> Runtime:
        # A load that fails raises in whoever started it; those that waited behind the lock try once more themselves.
        async with resident.lock:
            if resident.runtime is not None and resident.runtime.lane.failed is not None:
                await self._release_failed(resident)
            if resident.runtime is None:
                resident.runtime = await self._load(resident)
            return resident.runtime

    async def _release_failed(self, resident: Resident) -> None:
        # Until it is back, health must not take it for a model that nobody has asked for.
        resident.loading = True
        try:
            await self._release(resident)
        finally:
            resident.loading = False

    async def _load(self, resident: Resident) -> Runtime:
        model = resident.model
        device = self._device_of(model)
        started = time.monotonic()
        resident.loading = True

        def work() -> Runtime:
            runtime = model.load(device, self._settings, _progress(model))
            runtime.lane.tally = resident.tally
            device.attach(runtime.lane)
            collector.settle()
            return runtime

        try:
            runtime = await asyncio.to_thread(work)
        except OperatorError as error:
            _let_go(error)
            resident.error = error
            what = error.message if isinstance(error, ModelFileError) else error
            raise InternalError(f"model '{model.name}' cannot be loaded: {what}") from error
        except BaseException as error:
            _let_go(error)
            resident.error = error
            raise
        finally:
            resident.loading = False
        for derived in self._derived.values():
            if derived.base is model:
                derived.take_facts()
        resident.error = None
        resident.load_seconds = time.monotonic() - started
        return runtime

    async def _unload_expired(self, resident: Resident) -> None:
        async with resident.lock:
            expired = resident.expires_at is not None and resident.expires_at <= time.time()
            if resident.runtime is None or resident.users or not expired:
                return
            await self._release(resident)
            log.info("unloaded %s", resident.model.name)

    async def _release(self, resident: Resident) -> None:
        """Free a loaded model; the resident's lock is held."""
        freed, resident.runtime = [resident.runtime], None
        await asyncio.to_thread(self._free, resident.model, freed)

    def _free(self, model: Model, freed: list[Any]) -> None:
        """Free the one runtime of a list that has the last reference to it, so that its own cycles are found too."""
        runtime = freed.pop()
        self._device_of(model).detach(runtime.lane)
        runtime.close()
        del runtime
        # Recordings and their tensors name each other. An idle host would keep caches and mapped files until the
        # collector happens to come by, and a model is unloaded for its memory.
        collector.collect()

    # Failures of a device

    def lanes_failed(self, lanes: Sequence[Lane]) -> None:
        """A device took these lanes with it (any thread): try once to load their models again.

        Should that fail, health says so, and the next request for such a model tries anew.
        """
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._reload, lanes)

    def _reload(self, lanes: Sequence[Lane]) -> None:
        for resident in self._residents.values():
            if resident.runtime is not None and resident.runtime.lane in lanes:
                task = asyncio.create_task(self._reload_one(resident))
                self._reloads.add(task)
                task.add_done_callback(self._reloads.discard)

    async def _reload_one(self, resident: Resident) -> None:
        log.warning("loading %s again: its device failed", resident.model.name)
        try:
            await self._loaded(resident)
        except Exception as error:
            log.error("%s could not be loaded again: %s", resident.model.name, error)

    def start(self) -> None:
        """Begin to unload models whose keep-alive has run out, and to load again those whose device failed."""
        self._loop = asyncio.get_running_loop()
        self._reaper = asyncio.create_task(self._reap())

    async def stop(self) -> None:
        """Unload everything, in use or not."""
        if self._reaper is not None:
            self._reaper.cancel()
        self._loop = None
        await asyncio.gather(*self._reloads)
        for resident in (*self._residents.values(), *self._leaving):
            async with resident.lock:
                if resident.runtime is not None:
                    await self._release(resident)

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(REAP_SECONDS)
            for resident in (*self.residents(), *self._leaving):
                try:
                    await self._unload_expired(resident)
                except Exception:
                    log.exception("unloading %s failed", resident.model.name)
            self._leaving = [resident for resident in self._leaving if resident.users or resident.runtime is not None]

    async def digest(self, model: Model) -> str:
        """The sha256 of the model's file as hex, computed once per file and kept in the host's cache folder; of a
        derived model that of its layer over its base.
        """
        digest = await self.file_digest(model.path)
        derived = self._derived.get(model.name)
        return digest if derived is None else derived.layer.digest(digest)

    async def file_digest(self, path: Path) -> str:
        """The sha256 of any file, kept likewise. Raises OSError."""
        return await asyncio.to_thread(self._digests.of, path)


def _let_go(error: BaseException) -> None:
    """Give back what a failed load had made: an error that is kept would keep it, in the variables of its traceback."""
    link: BaseException | None = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
    collector.collect()


def _plain(name: str) -> str:
    return name.strip().casefold().removesuffix(":latest").removesuffix(".gguf")


_clock = time.monotonic


def _progress(model: Model) -> Callable[[float], None]:
    """Logs how far loading is: a line every second at most, so that a load that is soon over says nothing."""
    last = _clock()

    def report(share: float) -> None:
        nonlocal last
        if _clock() - last >= 1.0:
            last = _clock()
            log.info("loading %s: %d %%", model.name, round(share * 100))

    return report
