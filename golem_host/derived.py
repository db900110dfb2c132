"""Models made from another one at a request: its weights, with a layer of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from golem_host.devices.device import Device
from golem_host.layer import Layer
from golem_host.registry import Model, Runtime


class DerivedModel(Model):
    """`layer` over `base`, which is never itself derived. It shares the base's place in memory.

    `parent` is the name it was made from, `created` seconds since the epoch. Raises BadRequest for a layer that the
    base cannot honour. Made on a worker thread: a template may have to be compiled.
    """

    def __init__(self, name: str, base: Model, layer: Layer, *, parent: str, created: float) -> None:
        self.name = name
        self.base = self.root = base
        self.layer = layer
        self.parent = parent
        self.modified = created
        self.prepared = base.prepare_layer(layer)
        """What the plugin made of the layer."""
        self.take_facts()

    def take_facts(self) -> None:
        """What is told of the base is true of this one too; it may change whenever the base is loaded."""
        base = self.root
        self.kind, self.plugin, self.path, self.device = base.kind, base.plugin, base.path, base.device
        self.format, self.family, self.architecture = base.format, base.family, base.architecture
        self.parameter_count, self.quantization, self.size_bytes = (
            base.parameter_count, base.quantization, base.size_bytes,
        )  # fmt: skip
        self.context_length, self.embedding_length = base.context_length, base.embedding_length
        self.capabilities = base.layer_capabilities(self.prepared)

    def load(self, device: Device, settings: Mapping[str, Any], progress: Callable[[float], None]) -> Runtime:
        raise NotImplementedError("the registry loads the base")

    def view(self, runtime: Runtime) -> Runtime:
        return self.root.layered(runtime, self)

    def memory_bytes(self, settings: Mapping[str, Any]) -> int:
        return self.root.memory_bytes(settings)

    def describe(self, settings: Mapping[str, Any]) -> str:
        return self.root.describe(settings)

    def show(self, verbose: bool) -> dict[str, Any]:
        shown = dict(self.root.show(verbose))
        layer = self.layer
        shown["parameters"] = _parameters(shown.get("parameters") or "", layer.parameters)
        own = {
            "template": layer.template,
            "system": layer.system,
            "messages": list(layer.messages),
            "license": "\n".join(layer.licenses),
        }
        return {**shown, **{name: value for name, value in own.items() if value}}


def _parameters(lines: str, own: Mapping[str, Any]) -> str:
    """The base's `name value` lines with those of `own` in their place; a list gives a line for each value."""
    kept = [line for line in lines.splitlines() if line.split(maxsplit=1)[0] not in own]
    for name, value in own.items():
        kept += [f"{name:<30} {_written(each)}" for each in (value if isinstance(value, list) else [value])]
    return "\n".join(kept)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
