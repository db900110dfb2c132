"""Names, loading on demand, keep-alive, failures of loading, digests."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from golem_host.devices.device import Device
from golem_host.errors import BadRequest, ModelFileError, NotFound, OperatorError, RequestError
from golem_host.lanes.job import Job
from golem_host.lanes.lane import Lane
from golem_host.registry import Model, Registry, Resident


class Quiet(Lane):
    def next_time(self, now: float) -> float | None:
        return None

    def run(self, now: float) -> None:
        raise AssertionError("never ready")


class FakeRuntime:
    def __init__(self, name: str) -> None:
        self.lane: Lane = Quiet(name, kind="chat")
        self.closed = False

    def close(self) -> None:
        self.closed = True


class FakeModel(Model):
    plugin = "chat"

    def __init__(
        self, name: str, *, kind: str = "chat", path: Path = Path("model.gguf"), aliases: tuple[str, ...] = ()
    ):
        self.name, self.kind, self.path, self.aliases = name, kind, path, aliases
        self.loads: list[FakeRuntime] = []
        self.failure: Exception | None = None

    def load(self, device: Device, settings: Any, progress: Any) -> FakeRuntime:
        assert threading.current_thread() is not threading.main_thread()
        if self.failure is not None:
            raise self.failure
        self.loads.append(FakeRuntime(self.name))
        return self.loads[-1]


@pytest.fixture
def device():
    device = Device("cpu", lambda: None)
    device.start()
    yield device
    device.stop()


def registry_of(device: Device, tmp_path: Path, *models: Model, any_model: bool = True) -> Registry:
    settings = {"any-model": any_model, "keep-alive": 300.0}
    return Registry(models, lambda model: device, settings, cache_folder=tmp_path)


def test_names_may_be_written_as_clients_write_them(device: Device, tmp_path: Path) -> None:
    registry = registry_of(device, tmp_path, FakeModel("Smol", aliases=("Smol.Q4.gguf",)), FakeModel("other"))
    for written in ("Smol", "smol", "smol:latest", "Smol.gguf", "smol.q4", "SMOL.Q4.GGUF"):
        assert registry.resolve(written, "chat").name == "Smol"


def test_unknown_and_missing_names(device: Device, tmp_path: Path) -> None:
    two = registry_of(device, tmp_path, FakeModel("a"), FakeModel("b"))
    with pytest.raises(NotFound, match="model 'x' not found"):
        two.resolve("x", "chat")
    with pytest.raises(BadRequest, match="model is required; one of: a, b"):
        two.resolve(None, "chat")
    one = registry_of(device, tmp_path, FakeModel("a"))
    assert one.resolve("anything", "chat").name == "a" and one.resolve("", "chat").name == "a"
    strict = registry_of(device, tmp_path, FakeModel("a"), any_model=False)
    with pytest.raises(NotFound):
        strict.resolve("anything", "chat")


def test_a_model_of_another_kind_is_refused_with_a_hint(device: Device, tmp_path: Path) -> None:
    registry = registry_of(device, tmp_path, FakeModel("words"), FakeModel("vectors", kind="embed"))
    with pytest.raises(BadRequest, match="serves embed, not chat; use /v1/embeddings or /api/embed"):
        registry.resolve("vectors", "chat")
    with pytest.raises(NotFound, match="no stt model is served"):
        registry.resolve("anything", "stt")


@pytest.mark.parametrize("same", ["a", "A", "a:latest", "a.gguf"])
def test_two_models_of_one_name_are_refused(device: Device, tmp_path: Path, same: str) -> None:
    """Names that requests cannot tell apart are one name: the second model could not be asked for."""
    with pytest.raises(OperatorError, match=f"two models are named '{same}'"):
        registry_of(device, tmp_path, FakeModel("a"), FakeModel(same))


def test_a_name_counts_before_an_alias_and_an_alias_of_two_models_is_none(device: Device, tmp_path: Path) -> None:
    first, second = FakeModel("x", aliases=("y.gguf",)), FakeModel("y", aliases=("m.gguf",))
    registry = registry_of(device, tmp_path, first, second, FakeModel("z", aliases=("m.gguf",)))
    assert registry.find("y") is second
    assert registry.find("m") is None
    with pytest.raises(NotFound):
        registry.resolve("m", "chat")


def test_loading_happens_once_for_all_that_wait(device: Device, tmp_path: Path) -> None:
    model = FakeModel("a")
    registry = registry_of(device, tmp_path, model)

    async def use() -> None:
        async with registry.use(model):
            await asyncio.sleep(0.01)

    async def both() -> None:
        await asyncio.gather(use(), use(), use())
        await registry.stop()

    asyncio.run(both())
    assert len(model.loads) == 1 and model.loads[0].closed


def resident_of(registry: Registry) -> Resident:
    return registry.all_residents()[0]


def test_keep_alive_really_unloads_and_a_later_request_really_reloads(device: Device, tmp_path: Path) -> None:
    model = FakeModel("a")
    registry = registry_of(device, tmp_path, model)

    async def run() -> None:
        async with registry.use(model, 0.0):
            await registry.unload(model)
            assert registry.residents(), "a model in use stays"
        await registry._unload_expired(resident_of(registry))
        assert not registry.residents() and model.loads[0].closed
        async with registry.use(model, None) as runtime:
            assert runtime is model.loads[1]
        assert resident_of(registry).expires_at is None
        await registry.load(model, 5.0)
        assert resident_of(registry).expires_at == pytest.approx(time.time() + 5, abs=2)
        await registry.stop()

    asyncio.run(run())


def test_a_model_told_to_leave_while_in_use_leaves_after_the_last_request(device: Device, tmp_path: Path) -> None:
    model = FakeModel("a")
    registry = registry_of(device, tmp_path, model)

    async def run() -> None:
        async with registry.use(model):
            await registry.unload(model)
        await registry._unload_expired(resident_of(registry))
        assert not registry.residents(), "a request that says nothing does not call the model back"
        async with registry.use(model, 60.0):
            await registry.load(model, 0.0)
        await registry._unload_expired(resident_of(registry))
        assert not registry.residents(), "the request that came last decides"
        async with registry.use(model):
            await registry.unload(model)
            await registry.load(model, None)
        assert resident_of(registry).expires_at is None, "and may call it back"
        await registry.stop()

    asyncio.run(run())


def test_unloading_gives_memory_back_at_once(device: Device, tmp_path: Path) -> None:
    """What a runtime holds may refer to itself, as recordings do; nothing may wait for the collector to come by."""

    class Caches:
        def __init__(self) -> None:
            self.owner = self

    model = FakeModel("a")
    registry = registry_of(device, tmp_path, model)

    async def run() -> None:
        async with registry.use(model, 0.0) as runtime:
            runtime.caches = Caches()  # type: ignore[attr-defined]
            held = weakref.ref(runtime.caches)  # type: ignore[attr-defined]
            runtime.close = lambda: delattr(runtime, "caches")  # type: ignore[method-assign]
        gc.disable()
        try:
            await registry._unload_expired(resident_of(registry))
            assert held() is None
        finally:
            gc.enable()
        await registry.stop()

    asyncio.run(run())


def test_a_loaded_model_is_left_out_of_collections_until_it_is_unloaded(device: Device, tmp_path: Path) -> None:
    """A full collection that looked at it would hold a live stream's pass up."""

    class Caches:
        def __init__(self) -> None:
            self.itself = self

    class Caching(FakeModel):
        def load(self, device: Device, settings: Any, progress: Any) -> FakeRuntime:
            runtime = super().load(device, settings, progress)
            runtime.caches = Caches()  # type: ignore[attr-defined]
            runtime.close = lambda: delattr(runtime, "caches")  # type: ignore[method-assign]
            return runtime

    registry = registry_of(device, tmp_path, model := Caching("a"))

    async def run() -> None:
        async with registry.use(model, 0.0):
            held = weakref.ref(model.loads[0].caches)  # type: ignore[attr-defined]
            assert not any(isinstance(each, Caches) for each in gc.get_objects())
        await registry._unload_expired(resident_of(registry))
        assert held() is None
        await registry.stop()

    asyncio.run(run())


def test_a_runtime_that_names_itself_is_let_go(device: Device, tmp_path: Path) -> None:
    """Its lane calls it back: only a collection after the last reference finds them."""

    class Knotted(FakeModel):
        def load(self, device: Device, settings: Any, progress: Any) -> FakeRuntime:
            runtime = super().load(device, settings, progress)
            runtime.lane.owner = runtime  # type: ignore[attr-defined]
            return runtime

    registry = registry_of(device, tmp_path, model := Knotted("a"))

    async def run() -> None:
        async with registry.use(model, 0.0) as runtime:
            held = weakref.ref(runtime)
        del runtime
        model.loads.clear()
        await registry._unload_expired(resident_of(registry))
        assert held() is None
        await registry.stop()

    asyncio.run(run())


def test_the_reaper_finds_what_has_expired(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("golem_host.registry.REAP_SECONDS", 0.01)
    model = FakeModel("a")
    registry = registry_of(device, tmp_path, model)

    async def run() -> None:
        registry.start()
        await registry.load(model, 0.0)
        for _ in range(500):
            if model.loads[0].closed:
                break
            await asyncio.sleep(0.01)
        assert model.loads[0].closed and not registry.residents()
        await registry.stop()

    asyncio.run(run())


def test_a_failed_load_is_told_and_tried_again(device: Device, tmp_path: Path) -> None:
    model = FakeModel("a")
    model.failure = ModelFileError("model.gguf", "truncated")
    registry = registry_of(device, tmp_path, model)

    async def run() -> None:
        with pytest.raises(RequestError, match="model 'a' cannot be loaded: truncated") as failed:
            await registry.load(model)
        assert failed.value.headers["x-should-retry"] == "false"
        assert resident_of(registry).error is model.failure and not resident_of(registry).loading
        model.failure = None
        await registry.load(model)
        assert resident_of(registry).error is None
        await registry.stop()

    asyncio.run(run())


@pytest.mark.parametrize("error", [ModelFileError("model.gguf", "truncated"), MemoryError("no room"), OSError("gone")])
def test_a_failed_load_keeps_no_memory(device: Device, tmp_path: Path, error: Exception) -> None:
    """The error is kept for health; what loading had made until then must not stay with it."""
    held: list[weakref.ref[Any]] = []

    class Half(FakeModel):
        def load(self, device: Device, settings: Any, progress: Any) -> FakeRuntime:
            runtime = FakeRuntime(self.name)
            runtime.itself = runtime  # type: ignore[attr-defined]
            held.append(weakref.ref(runtime))
            try:
                raise KeyError("blk.1")
            except KeyError:
                raise error  # noqa: B904

    registry = registry_of(device, tmp_path, Half("a"))

    async def run() -> None:
        with pytest.raises((RequestError, MemoryError, OSError)):
            await registry.load(registry.models()[0])
        gc.disable()
        try:
            assert resident_of(registry).error is error
            assert held[0]() is None
        finally:
            gc.enable()
        await registry.stop()

    asyncio.run(run())


def test_a_lane_that_failed_is_replaced_by_the_next_request(device: Device, tmp_path: Path) -> None:
    model = FakeModel("a")
    registry = registry_of(device, tmp_path, model)

    async def run() -> None:
        async with registry.use(model) as runtime:
            runtime.lane.failed = RuntimeError("dead")
        async with registry.use(model) as runtime:
            assert runtime is model.loads[1] and model.loads[0].closed
            runtime.lane.submit(Job("works"))
        await registry.stop()

    asyncio.run(run())


def test_digests_are_remembered_until_the_file_changes(device: Device, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"one")
    model = FakeModel("a", path=file)
    registry = registry_of(device, tmp_path / "cache", model)
    assert asyncio.run(registry.digest(model)) == hashlib.sha256(b"one").hexdigest()
    (tmp_path / "cache" / "digests.json").write_text("not json")
    file.write_bytes(b"other")
    assert asyncio.run(registry.digest(model)) == hashlib.sha256(b"other").hexdigest()


def test_a_long_load_tells_how_far_it_is(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A line a second; a load that is soon over says nothing."""
    clock = [0.0]
    monkeypatch.setattr("golem_host.registry._clock", lambda: clock[0])

    class Slow(FakeModel):
        def load(self, device: Device, settings: Any, progress: Any) -> FakeRuntime:
            for percent in range(0, 101, 10):
                progress(percent / 100)
                clock[0] += 0.4
            return super().load(device, settings, progress)

    model = Slow("big")
    registry = registry_of(device, tmp_path, model)
    with caplog.at_level("INFO", "golem_host"):
        asyncio.run(registry.load(model))
    assert [record.getMessage() for record in caplog.records if "loading" in record.getMessage()] == [
        "loading big: 30 %",
        "loading big: 60 %",
        "loading big: 90 %",
    ]
