"""Models from files: what the header tells, what is refused, and files whose template or defaults are damaged."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golem_host import plugins
from golem_host.api import Job, ModelFileError
from golem_host.config import CORE, Settings, resolve
from golem_host.devices.cpu import CpuBackend
from golem_host.devices.device import Device
from golem_host.errors import Unavailable, UsageError
from golem_host.testing.tiny import tiny_gguf
from golem_host.weights.gguf import open_gguf
from golem_host_chat.families import ARCHITECTURES
from golem_host_chat.generation import Generation
from golem_host_chat.model import ChatModel, model_name
from golem_host_chat.plugin import golem_identify, golem_models, golem_settings
from golem_host_chat.runtime import ChatRuntime
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.stepper import ChatStepper
from tool_template import TOOL_TEMPLATE

SETTINGS: dict[str, Any] = {
    "context": 512,
    "parallel": 2,
    "kv-type": "f16",
    "max-tokens": None,
    "cache-ttl": 0.0,
    "checkpoints": 4,
    "cache-ram": 0,
    "chat-model": (),
    "repack": True,
    "vulkan-layers": None,
    "queue": 8,
    "threads": 1,
}

PLUGINS = plugins.load(["chat"])


@pytest.fixture
def device() -> Iterator[Device]:
    device = Device("cpu", lambda: CpuBackend(threads=1))
    device.start()
    yield device
    device.stop()


def load(path: Path, device: Device) -> ChatRuntime:
    runtime = ChatModel(path).load(device, SETTINGS, lambda share: None)
    device.attach(runtime.lane)
    return runtime


def test_the_header_tells_what_a_model_is(tmp_path: Path) -> None:
    path = tmp_path / "Some-Model.Q8_0.gguf"
    tiny_gguf(path, "gemma3", quantization="Q8_0", context=128, window=16)
    model = ChatModel(path)
    assert (model.name, model.family, model.quantization) == ("Some-Model.Q8_0", "gemma3", "Q8_0")
    assert model.context_length == 128 and model.size_bytes == path.stat().st_size
    assert model.slot_context(SETTINGS) == 128, "no more than it was trained for"
    weights = sum(tensor.nbytes for tensor in open_gguf(path).tensors.values())
    caches = 2 * 7 * 128 * 2 * 2 * (32 + 32)  # slots, layers, positions, heads, bytes of a half, key and value
    assert model.memory_bytes(SETTINGS) == weights + caches
    assert model.memory_bytes({**SETTINGS, "repack": False}) == caches
    shown = model.show(verbose=False)
    assert (
        shown["model_info"]["general.architecture"] == "gemma3" and shown["model_info"]["tokenizer.ggml.tokens"] == []
    )
    assert "start_of_turn" in shown["template"]
    assert len(model.show(verbose=True)["model_info"]["tokenizer.ggml.tokens"]) > 10
    assert "insert" not in model.capabilities


def test_a_vocabulary_that_can_insert(tmp_path: Path) -> None:
    marks = {f"tokenizer.ggml.fim_{name}_token_id": id for id, name in enumerate(("pre", "suf", "mid"), 1)}
    model = ChatModel(tiny_gguf(tmp_path / "tiny.gguf", "llama", metadata=marks))
    model.show(verbose=False)
    assert model.capabilities == ("completion", "insert")


def test_a_split_file_is_one_model(tmp_path: Path, device: Device) -> None:
    tiny_gguf(tmp_path / "parts.gguf", "llama", shards=3)
    part = sorted(tmp_path.glob("*.gguf"))[1]
    model = ChatModel(part)
    assert model.name == "parts" and model.size_bytes == sum(p.stat().st_size for p in tmp_path.glob("*.gguf"))
    load(part, device)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.gguf", "a"), ("a-00001-of-00003.gguf", "a"), ("A.Q4_K_M.GGUF", "A.Q4_K_M"), ("plain", "plain")],
)
def test_names(name: str, expected: str) -> None:
    assert model_name(Path(name)) == expected


def test_slots_too_small_to_use_are_refused(tmp_path: Path) -> None:
    tiny_gguf(tmp_path / "m.gguf")
    with pytest.raises(ModelFileError, match="leaves 8 positions each; raise --context or lower --parallel"):
        ChatModel(tmp_path / "m.gguf").slot_context({"context": 64, "parallel": 8})


@pytest.mark.parametrize("there", [None, 1], ids=["on one device", "on two devices"])
def test_the_memory_of_an_unloaded_model_is_not_kept_until_garbage_is_collected(
    tmp_path: Path, device: Device, there: int | None
) -> None:
    model = ChatModel(tiny_gguf(tmp_path / "m.gguf"))
    gc.collect()
    gc.disable()
    try:
        runtime = model.load(device, {**SETTINGS, "vulkan-layers": there}, lambda share: None)
        kept = [weakref.ref(each) for each in (runtime, runtime.passes, runtime.passes.memory)]
        runtime.close()
        del runtime
        assert [each() for each in kept] == [None] * 3
    finally:
        gc.enable()


def test_a_q8_0_cache_takes_little_more_than_half_the_memory(tmp_path: Path, device: Device) -> None:
    tiny_gguf(tmp_path / "m.gguf", "qwen3")
    model = ChatModel(tmp_path / "m.gguf")
    settings = {**SETTINGS, "repack": False}  # the caches alone
    f16, q8_0 = (model.memory_bytes({**settings, "kv-type": kind}) for kind in ("f16", "q8_0"))
    assert q8_0 == f16 * 34 // 64
    runtime = model.load(device, {**SETTINGS, "kv-type": "q8_0"}, lambda share: None)
    device.attach(runtime.lane)
    assert _draw(runtime, device) >= 0


def test_tables_of_which_rows_are_read_stay_in_the_file(tmp_path: Path) -> None:
    tied, untied = (ChatModel(tiny_gguf(tmp_path / f"{each}.gguf", tied=each)) for each in (True, False))
    assert tied.memory_bytes(SETTINGS) == untied.memory_bytes(SETTINGS)


def test_slots_that_do_not_fit_in_memory_are_refused_before_loading(
    tmp_path: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ChatModel(tiny_gguf(tmp_path / "m.gguf", "qwen3"))
    needed = model.memory_bytes(SETTINGS)
    monkeypatch.setattr("golem_host_chat.model.available_bytes", lambda: needed - 1)
    with pytest.raises(
        ModelFileError, match=r"it needs .* of memory with 2 slots of 256 positions, .* are free; lower"
    ):
        model.load(device, SETTINGS, lambda share: None)
    monkeypatch.setattr("golem_host_chat.model.available_bytes", lambda: needed)
    model.load(device, SETTINGS, lambda share: None)


def test_checkpoints_are_as_many_as_there_is_memory_for(
    tmp_path: Path, device: Device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A checkpoint of these windows of 8 takes 7 layers less a full one, 2 heads of 32 keys and 32 values each."""
    settings = {**SETTINGS, "context": 4096}
    path = tiny_gguf(tmp_path / "m.gguf", "gemma3", window=8, context=2048)
    model = ChatModel(path)
    each = 2 * 6 * 8 * 2 * 2 * (32 + 32)
    for free, granted in ((4 * each, 4), (4 * each - 1, 3), (0, 0), (100 * each, 4), (None, 4)):
        caplog.clear()
        there = None if free is None else model.memory_bytes(settings) + free
        monkeypatch.setattr("golem_host_chat.model.available_bytes", lambda there=there: there)
        stepper = model.load(device, settings, lambda share: None).lane.stepper
        assert isinstance(stepper, ChatStepper)
        assert stepper._checkpoints == granted
        assert [record.message.endswith(f"each slot keeps {granted}") for record in caplog.records] == (
            [] if granted == 4 else [True]
        )


def test_each_chat_model_has_its_share_of_the_memory_for_conversations(tmp_path: Path, device: Device) -> None:
    path = tiny_gguf(tmp_path / "m.gguf")
    for most, models, share in ((10, 1, 10 << 20), (10, 4, 10 << 18), (0, 1, 0), (-1, 2, None)):
        settings = {**SETTINGS, "cache-ram": most, "chat-model": (path,) * models}
        stepper = ChatModel(path).load(device, settings, lambda share: None).lane.stepper
        assert isinstance(stepper, ChatStepper)
        assert stepper._prompts._limit == share


def test_heads_that_do_not_fit_the_cache_are_refused(tmp_path: Path, device: Device) -> None:
    path = tmp_path / "m.gguf"
    tiny_gguf(path, "llama")
    settings = {**SETTINGS, "kv-type": "q8_0"}
    with pytest.raises(ModelFileError, match="--kv-type q8_0: .*blocks of 32 values; 16 is no multiple of 32, use f16"):
        ChatModel(path).load(device, settings, lambda share: None)
    found = golem_identify(path, Settings([], settings, {}), PLUGINS)
    assert found is not None and found.family == "llama" and "--kv-type q8_0" in found.problems[0]


def test_a_family_that_is_not_served_is_named_with_those_that_are(tmp_path: Path) -> None:
    tiny_gguf(tmp_path / "m.gguf", metadata={"general.architecture": "mamba"})
    served = ", ".join(sorted(ARCHITECTURES))
    with pytest.raises(ModelFileError, match=f"family 'mamba' are not served; families served: {served}$"):
        ChatModel(tmp_path / "m.gguf")


def test_a_template_that_does_not_compile_refuses_chat_and_nothing_else(tmp_path: Path, device: Device) -> None:
    tiny_gguf(tmp_path / "m.gguf", metadata={"tokenizer.chat_template": "{% if %}"})
    runtime = load(tmp_path / "m.gguf", device)
    assert runtime.template is None and "does not compile" in runtime.template_fault


def test_damaged_sampling_defaults_are_refused_by_key(tmp_path: Path, device: Device) -> None:
    tiny_gguf(tmp_path / "m.gguf", metadata={"general.sampling.temp": "warm"})
    with pytest.raises(ModelFileError, match=r"general\.sampling\.temp"):
        load(tmp_path / "m.gguf", device)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tokenizer.ggml.pre", "of-tomorrow"),
        ("tokenizer.ggml.model", "unigram"),
        ("tokenizer.ggml.token_type", [1, 1]),
        ("tokenizer.chat_template", 7),
        ("general.sampling.temp", "warm"),
    ],
)
def test_what_loading_refuses_is_told_without_loading(tmp_path: Path, device: Device, key: str, value: Any) -> None:
    path = tmp_path / "m.gguf"
    tiny_gguf(path, metadata={key: value})
    with pytest.raises(ModelFileError) as refused:
        load(path, device)
    found = golem_identify(path, Settings([], SETTINGS, {}), PLUGINS)
    assert found is not None and found.problems == (refused.value.message,)


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{% if %}", "cannot be used, conversations are refused: "),
        (TOOL_TEMPLATE, "tools: yes, thinking: yes"),
        ("{% for message in messages %}{{ message.content }}{% endfor %}", "tools: no, thinking: no"),
        (None, "none: texts are completed, conversations refused"),
    ],
)
def test_what_a_template_knows_is_told_without_loading(tmp_path: Path, template: str | None, told: str) -> None:
    tiny_gguf(tmp_path / "m.gguf", metadata={"tokenizer.chat_template": template})
    found = golem_identify(tmp_path / "m.gguf", Settings([], SETTINGS, {}), PLUGINS)
    assert found is not None and not found.problems, "a damaged template is no reason to refuse the file"
    assert dict(found.rows)["chat template"].startswith(told)


def test_a_file_that_was_replaced_is_described_as_it_is(tmp_path: Path, device: Device) -> None:
    path = tmp_path / "m.gguf"
    tiny_gguf(path, "qwen3", context=512)
    model = ChatModel(path, name="mine")
    tiny_gguf(tmp_path / "new.gguf", "llama", context=64, quantization="Q8_0")
    (tmp_path / "new.gguf").replace(path)
    runtime = model.load(device, SETTINGS, lambda share: None)
    assert (model.name, model.family, model.context_length, model.quantization) == ("mine", "llama", 64, "Q8_0")
    assert runtime.context == 64 and model.size_bytes == path.stat().st_size


def test_a_request_that_comes_too_late_for_a_model_is_told_to_try_again(tmp_path: Path, device: Device) -> None:
    """It may hold the runtime of a lane that failed, while the next request has it replaced."""
    tiny_gguf(tmp_path / "m.gguf")
    runtime = load(tmp_path / "m.gguf", device)
    device.detach(runtime.lane)
    runtime.close()
    assert runtime.tokenizer.encode("still works")
    with pytest.raises(Unavailable):
        runtime.lane.submit(Job(Generation(prompt=[5], params=SamplingParams())))


def test_tokens_the_file_forbids_are_never_drawn(tmp_path: Path, device: Device) -> None:
    tiny_gguf(tmp_path / "plain.gguf", seed=3)
    drawn = _draw(load(tmp_path / "plain.gguf", device), device)
    tiny_gguf(tmp_path / "m.gguf", seed=3, metadata={"tokenizer.ggml.suppress_tokens": [drawn]})
    assert _draw(load(tmp_path / "m.gguf", device), device) != drawn


def test_control_tokens_leave_as_text_for_those_who_read_them(tmp_path: Path, device: Device) -> None:
    runtime = load(tiny_gguf(tmp_path / "m.gguf", "gemma4"), device)
    token = runtime.tokenizer.vocab.ids[b"<|turn>"]
    params = SamplingParams(temperature=0.0, logit_bias=((token, 1e9),))
    for preserve, text in ((frozenset[int](), ""), (frozenset({token}), "<|turn><|turn>")):
        job = Job(Generation(prompt=[5], max_tokens=2, params=params, preserve=preserve))
        runtime.lane.submit(job)
        while job.end is None:
            device.submit(lambda: None).result()
        assert (job.value.text, job.value.tokens) == (text, [token, token])


def test_capabilities_are_those_of_the_template(tmp_path: Path, device: Device) -> None:
    model = ChatModel(tiny_gguf(tmp_path / "plain.gguf"))
    assert model.capabilities == ("completion",)
    model.show(False)
    assert model.capabilities == ("completion",)
    able = tiny_gguf(tmp_path / "able.gguf", metadata={"tokenizer.chat_template": TOOL_TEMPLATE})
    shown, loaded = ChatModel(able), load(able, device).model
    shown.show(False)
    assert shown.capabilities == loaded.capabilities == ("completion", "tools", "thinking")
    broken = ChatModel(tiny_gguf(tmp_path / "broken.gguf", metadata={"tokenizer.chat_template": "{% if %}"}))
    broken.show(False)
    assert broken.capabilities == ("completion",)


def test_layers_that_share_keys_and_values_are_not_put_on_two_devices(tmp_path: Path, device: Device) -> None:
    tiny_gguf(tmp_path / "m.gguf", "gemma4")
    for there in (1, 3):
        with pytest.raises(ModelFileError, match=f"--vulkan-layers {there}: the last 4 layers share .* give 4 or more"):
            ChatModel(tmp_path / "m.gguf").load(device, SETTINGS | {"vulkan-layers": there}, lambda share: None)
    whole = _draw(load(tmp_path / "m.gguf", device), device)
    for there in (0, 4, 6):
        parted = ChatModel(tmp_path / "m.gguf").load(device, SETTINGS | {"vulkan-layers": there}, lambda share: None)
        device.attach(parted.lane)
        assert _draw(parted, device) == whole


def _draw(runtime: ChatRuntime, device: Device) -> int:
    job = Job(Generation(prompt=[5, 6, 7], max_tokens=1, params=SamplingParams(temperature=0.0)))
    runtime.lane.submit(job)
    while job.end is None:
        device.submit(lambda: None).result()
    return job.value.tokens[0]


def test_a_model_is_found_by_its_name_in_the_model_folder(tmp_path: Path) -> None:
    tiny_gguf(tmp_path / "small.gguf")
    for written in ("small", "small.gguf", str(tmp_path / "small.gguf")):
        settings = resolve(
            [*CORE, *golem_settings()], {"chat-model": [written], "model-folder": [str(tmp_path)]}, {}, None
        )
        assert [model.name for model in golem_models(settings, PLUGINS)] == ["small"]
    # A settings file elsewhere, whose paths are relative to it, names it the same way.
    file = tmp_path / "elsewhere" / "golem.toml"
    file.parent.mkdir()
    file.write_text('chat-model = ["small"]\n')
    flags = {"model-folder": [str(tmp_path)]}
    assert [model.name for model in golem_models(resolve([*CORE, *golem_settings()], flags, {}, file), PLUGINS)] == [
        "small"
    ]
    file.write_text('chat-model = ["smal"]\n')
    with pytest.raises(ModelFileError, match="^smal: neither here nor in the model folder"):
        golem_models(resolve([*CORE, *golem_settings()], flags, {}, file), PLUGINS)


def test_layers_for_a_vulkan_device_want_one(tmp_path: Path) -> None:
    flags = {"chat-model": [str(tiny_gguf(tmp_path / "m.gguf"))], "vulkan-layers": ["2"]}
    with pytest.raises(UsageError, match="--device vulkan"):
        golem_models(resolve([*CORE, *golem_settings()], flags, {}, None), PLUGINS)
    on_device = {**flags, "chat-device": ["vulkan"]}
    assert [
        model.device for model in golem_models(resolve([*CORE, *golem_settings()], on_device, {}, None), PLUGINS)
    ] == ["vulkan"]
