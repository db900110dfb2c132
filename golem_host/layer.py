"""What a derived model adds to the model it is made from: Ollama's system prompt, template, parameters, messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields

LAYER_BYTES = 4 * 2**20
"""Most that a layer may hold, written as JSON."""


@dataclass(frozen=True)
class Layer:
    """Empty members add nothing. `messages` are objects with `role` and `content`, `parameters` Ollama's options;
    whether a model can honour them is for its plugin to say (`Model.prepare_layer`).
    """

    system: str = ""
    template: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    messages: tuple[Any, ...] = ()
    licenses: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return self == Layer()

    def over(self, other: Layer) -> Layer:
        """This one laid over `other`: what it leaves empty is the other's, parameters are joined by name."""
        return Layer(
            system=self.system or other.system,
            template=self.template or other.template,
            parameters={**other.parameters, **self.parameters},
            messages=self.messages or other.messages,
            licenses=self.licenses or other.licenses,
        )

    def to_json(self) -> dict[str, Any]:
        """Its members as `layer_of` reads them."""
        return {
            "system": self.system,
            "template": self.template,
            "parameters": dict(self.parameters),
            "messages": list(self.messages),
            "license": list(self.licenses),
        }

    def digest(self, base: str) -> str:
        """sha256 (hex) of the layer over a base with that digest; names and times do not count."""
        content = json.dumps([base, self.to_json()], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


def layer_of(fields: Fields) -> Layer:
    """The layer in the fields system, template, parameters, messages and license. Raises BadRequest naming one."""
    layer = Layer(
        system=fields.string("system", ""),
        template=fields.string("template", ""),
        parameters={name: value for name, value in (fields.object("parameters") or {}).items() if value is not None},
        messages=tuple(fields.array("messages") or ()),
        licenses=_licenses(fields),
    )
    if len(json.dumps(layer.to_json())) > LAYER_BYTES:
        raise BadRequest(f"system, template, parameters, messages and license hold more than {LAYER_BYTES} bytes")
    return layer


def _licenses(fields: Fields) -> tuple[str, ...]:
    value = fields.value("license")
    texts = [value] if isinstance(value, str) else fields.array("license") or []
    if not all(isinstance(text, str) for text in texts):
        raise fields.fault("license", "expected a string or an array of strings")
    return tuple(text for text in texts if text)
