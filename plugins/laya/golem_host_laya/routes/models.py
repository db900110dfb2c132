"""Which checkpoint a request's `model` means, by the names that laya knows its checkpoints by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from golem_host.errors import NotFound, Unprocessable
from golem_host_laya.model import KIND

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host.registry import Model

_BUNDLE = "convaiinnovations/laya"
_CHECKPOINTS = ("english", "multilingual", "typed-decisions")
_ALIASES = {
    "en": "english",
    "laya": "english",
    "default": "english",
    "multi": "multilingual",
    "ml": "multilingual",
    "laya-multilingual": "multilingual",
    f"{_BUNDLE}-multilingual": "multilingual",
    "typed": "typed-decisions",
    "typed_decisions": "typed-decisions",
    "decisions": "typed-decisions",
    "laya-typed-decisions": "typed-decisions",
    f"{_BUNDLE}-typed-decisions": "typed-decisions",
}


def choose(host: Host, asked: Any) -> Model:
    """The model for a request. A single one answers whatever is asked for, as laya's server does for names such as
    `jev-1`; of several it is the one named, or the first.

    Raises NotFound without any, and Unprocessable for a checkpoint of laya's, or a path or repository, that is not
    served.
    """
    served = [model for model in host.registry.models() if model.kind == KIND]
    if not served:
        raise NotFound("no decision model is served; give a laya checkpoint with --laya-model", code="model_not_found")
    name = str(asked or "").strip()
    if len(served) == 1 or not name or name.lower() == _BUNDLE:
        return served[0]
    found = host.registry.find(name)
    if found is not None and found.kind == KIND:
        return found
    wanted = _canonical(name)
    for model in served:
        if _canonical(model.name) == wanted:
            return model
    if wanted in _CHECKPOINTS or name[0] in ".~" or "/" in name or "\\" in name:
        names = sorted(model.name for model in served)
        raise Unprocessable(f"unknown model {name!r}; choose one of {names}, or omit model to let the server choose")
    return served[0]


def _canonical(name: str) -> str:
    return _ALIASES.get(name.lower(), name.lower())
