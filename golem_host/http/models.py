"""The lists of models, of every kind: OpenAI's, and Ollama's `/api/tags`, `/api/ps`, `/api/show`."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from litestar import Request, Response

from golem_host.errors import BadRequest, NotFound
from golem_host.hookspecs import Route
from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.timestamps import FOREVER_SECONDS, seconds_rfc3339
from golem_host.http.writing import json_response

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host.registry import Model, Resident

log = logging.getLogger("golem_host.http")

LONG_ARRAY = 1024
"""Metadata arrays with more elements are emptied unless the request is `verbose` (Ollama's own bound)."""
_HIDDEN = ("tokenizer.chat_template", "general.name")


async def list_models(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """`GET /v1/models`."""
    return json_response({"object": "list", "data": [openai_model(model) for model in host.registry.models()]})


async def one_model(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """`GET /v1/models/{id}`; the id may hold slashes and colons."""
    return json_response(openai_model(_find(host, request.path_params["name"].strip("/"))))


async def tags(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """`GET /api/tags`: every model that can be asked for."""
    return json_response({"models": [await _tag(host, model) for model in host.registry.models()]})


async def ps(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """`GET /api/ps`: the models in memory, the one that stays longest first."""
    return json_response({"models": [await _loaded(host, resident) for resident in host.registry.residents()]})


async def show(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """`POST /api/show`."""
    fields = Fields(await read_json(request))
    name = fields.string("model") or fields.string("name")
    verbose = fields.boolean("verbose", False)
    if not name:
        raise BadRequest("model is required", param="model")
    model = _find(host, name)
    # Reads the file again: its metadata may hold hundreds of thousands of entries.
    return json_response(await asyncio.to_thread(shown, model, verbose))


def openai_model(model: Model) -> dict[str, Any]:
    """A model as OpenAI lists it, with llama-server's `aliases` and `meta`."""
    return {
        "id": model.name,
        "object": "model",
        "created": int(model.modified),
        "owned_by": "golem-host",
        "aliases": list(model.aliases),
        "meta": {
            "n_ctx_train": model.context_length,
            "n_embd": model.embedding_length,
            "n_params": model.parameter_count,
            "size": model.size_bytes,
        },
    }


def shown(model: Model, verbose: bool) -> dict[str, Any]:
    """What `/api/show` answers: the model's own members (`Model.show`; `parameters` are lines `name value`), its
    metadata cleaned, and what every model has."""
    members = model.show(verbose)
    parameters = members.get("parameters") or ""
    template = members.get("template") or ""
    return {
        **members,
        "modelfile": _modelfile(model, members),
        "parameters": parameters,
        "template": template,
        "details": details(model),
        "model_info": model_info(model, members.get("model_info") or {}, verbose),
        "capabilities": list(model.capabilities),
        "modified_at": seconds_rfc3339(model.modified),
    }


def details(model: Model) -> dict[str, Any]:
    """The `details` of Ollama's lists."""
    return {
        "parent_model": parent_of(model),
        "format": model.format,
        "family": model.family,
        "families": [model.family],
        "parameter_size": model.parameter_size,
        "quantization_level": model.quantization,
        "context_length": model.context_length,
        "embedding_length": model.embedding_length,
    }


def model_info(model: Model, metadata: Mapping[str, Any], verbose: bool) -> dict[str, Any]:
    """File metadata with what clients read always there, the template and name left out and long arrays emptied."""
    info: dict[str, Any] = {
        "general.architecture": model.architecture,
        "general.parameter_count": model.parameter_count,
        f"{model.architecture}.context_length": model.context_length,
        f"{model.architecture}.embedding_length": model.embedding_length,
    }
    for key, value in metadata.items():
        if key not in _HIDDEN:
            long = isinstance(value, list) and len(value) > LONG_ARRAY
            info[key] = [] if long and not verbose else _jsonable(value)
    return info


def _jsonable(value: Any) -> Any:
    """Metadata with null for the numbers JSON does not have."""
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def tagged(name: str) -> str:
    """The name with its tag; `latest` when it has none."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


async def _tag(host: Host, model: Model) -> dict[str, Any]:
    return {
        "name": tagged(model.name),
        "model": tagged(model.name),
        "modified_at": seconds_rfc3339(model.modified),
        "size": model.size_bytes,
        "digest": await _digest(host, model),
        "details": details(model),
        "capabilities": list(model.capabilities),
    }


async def _loaded(host: Host, resident: Resident) -> dict[str, Any]:
    model = resident.asked
    size = model.memory_bytes(host.settings)
    return {
        "name": tagged(model.name),
        "model": tagged(model.name),
        "size": size,
        "digest": await _digest(host, model),
        "details": details(model),
        "expires_at": seconds_rfc3339(_expiry(host, resident)),
        "size_vram": 0 if model.device == "cpu" else size,
        "context_length": getattr(resident.runtime, "context", model.context_length),
    }


def _expiry(host: Host, resident: Resident) -> float:
    """When the model leaves memory, in seconds since the epoch; a model in use starts its clock when that ends."""
    if not resident.users:
        return time.time() + FOREVER_SECONDS if resident.expires_at is None else resident.expires_at
    keep_alive = host.settings["keep-alive"]
    return time.time() + (FOREVER_SECONDS if keep_alive is None else keep_alive)


async def _digest(host: Host, model: Model) -> str:
    try:
        return await host.registry.digest(model)
    except OSError as error:
        # The file went away under a model that may still be in memory: the list must not fail for it.
        log.warning("no digest of %s: %s", model.name, error)
        return ""


def _find(host: Host, name: str) -> Model:
    model = host.registry.find(name)
    if model is None:
        raise NotFound(f"model '{name}' not found", param="model", code="model_not_found")
    return model


def _modelfile(model: Model, members: Mapping[str, Any]) -> str:
    lines = [f"FROM {parent_of(model) or model.name}"]
    lines += [f'{word.upper()} """{members[word]}"""' for word in ("template", "system") if members.get(word)]
    lines += [f"PARAMETER {line}" for line in (members.get("parameters") or "").splitlines()]
    lines += [f'MESSAGE {message["role"]} """{message["content"]}"""' for message in members.get("messages") or ()]
    return "\n".join(lines) + "\n"


def parent_of(model: Model) -> str:
    """The name a derived model was made from, else nothing."""
    return getattr(model, "parent", "")


ROUTES = (
    Route("GET", "/v1/models", list_models, dialect="openai", summary="Models, OpenAI's list", head=True),
    Route("GET", "/models", list_models, dialect="openai", summary="The same", head=True),
    Route("GET", "/v1/models/{name:path}", one_model, dialect="openai", summary="One model", head=True),
    Route("GET", "/api/tags", tags, dialect="ollama", summary="Models, Ollama's list", head=True),
    Route("GET", "/api/ps", ps, dialect="ollama", summary="Models in memory", head=True),
    Route("POST", "/api/show", show, dialect="ollama", summary="One model in detail"),
)
