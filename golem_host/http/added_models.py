"""Ollama's routes that add models and take them away: create, copy, delete."""

from __future__ import annotations

import asyncio
import re
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from litestar import Request, Response

from golem_host.errors import BadRequest, InternalError, NotFound
from golem_host.hookspecs import Route
from golem_host.http.blobs import blob_path, checked_digest
from golem_host.http.body import read_json
from golem_host.http.fields import Fields, kind_of
from golem_host.http.off_loop import off_loop
from golem_host.http.streams import stream_reply
from golem_host.layer import Layer, layer_of
from golem_host.manifests import checked_name
from golem_host.modelfile import read_modelfile

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host.registry import Model

_UNSERVED = (
    ("adapters", "there are no adapters", ({}, [])),
    ("quantize", "weights are served as the file has them", ("",)),
    ("quantization", "weights are served as the file has them", ("",)),
    ("path", "send the files to /api/blobs and name them in 'files'", ("",)),
    ("renderer", "conversations are rendered by the model's template", ("",)),
    ("parser", "answers are read as the model's template writes them", ("",)),
    ("requires", "there are no versions of Ollama here", ("",)),
    ("remote_host", "models are served by this host itself", ("",)),
)
MOST_FILES = 1024


async def create(request: Request[Any, Any, Any], host: Host) -> Response[bytes] | dict[str, Any]:
    """`POST /api/create`: a model derived `from` another, or one made of `files` that were sent as blobs."""
    fields = Fields(await read_json(request))
    fields = await off_loop(request, lambda: _with_modelfile(fields))
    for name, reason, neutral in _UNSERVED:
        fields.refuse(name, reason, neutral=neutral)
    name = checked_name(model_field(fields))
    parent, files = fields.string("from"), _files(fields)
    stream = fields.boolean("stream", True)
    layer = layer_of(fields)
    if parent and files:
        raise BadRequest("'from' and 'files' were both specified", param="files")
    if parent:
        found = host.registry.find(parent)
        if found is None:
            raise NotFound(f'model "{parent}" not found, try pulling it first', param="from", code="model_not_found")
        lines = _derive(host, name, found, layer)
    elif files:
        if not layer.empty:
            raise BadRequest(
                "a model made of 'files' has nothing of its own beside them: create it, then one 'from' it with "
                "system, template, parameters or messages",
                param="files",
            )
        lines = _from_files(host, name, files)
    else:
        raise BadRequest("neither 'from' or 'files' was specified", param="from")
    if stream:
        return await stream_reply(request, (), lines, framing="ndjson", dialect="ollama", done=None)
    last: dict[str, Any] = {}
    async for line in lines:
        last = line
    return last


def _with_modelfile(fields: Fields) -> Fields:
    """The same, with what a Modelfile says as fields."""
    modelfile = fields.string("modelfile", "")
    if not modelfile:
        return fields
    for name in ("from", "files", "system", "template", "parameters", "messages", "license"):
        fields.refuse(name, "beside 'modelfile', which says all", neutral=("", [], {}))
    return Fields({**fields.obj, **read_modelfile(modelfile)})


async def copy(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """`POST /api/copy`: `destination` answers as `source` does."""
    fields = Fields(await read_json(request))
    source, destination = fields.string("source", ""), fields.string("destination", "")
    if not source:
        raise BadRequest('source "" is invalid', param="source")
    try:
        name = checked_name(destination)
    except BadRequest as error:
        raise BadRequest(
            f'destination "{destination[:128]}" is invalid: {error.message}', param="destination"
        ) from None
    found = host.registry.find(source)
    if found is None:
        raise NotFound(f'model "{source}" not found', param="source", code="model_not_found")
    if found.name.casefold() != name.casefold():
        try:
            await host.catalogue.derive(name, found, Layer())
        except OSError as error:
            raise unwritable(error) from error
    return Response(b"", media_type="application/json")


async def delete(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """`DELETE /api/delete`: an added model, with its files."""
    name = model_field(Fields(await read_json(request)))
    found = host.registry.find(name, aliases=False)
    if found is None:
        raise NotFound(f"model '{name}' not found", param="model", code="model_not_found")
    try:
        await host.catalogue.delete(found)
    except OSError as error:
        raise unwritable(error) from error
    return Response(b"", media_type="application/json")


def model_field(fields: Fields) -> str:
    """The name in `model`, or in `name` as older clients send it. Raises BadRequest without one."""
    name = fields.string("model") or fields.string("name")
    if not name:
        raise BadRequest("model is required", param="model")
    return name


def unwritable(error: OSError) -> InternalError:
    """The model folder, or its disk, does not take what is to be kept there."""
    return InternalError(f"the model folder cannot be written: {error.strerror or error}")


async def _derive(host: Host, name: str, parent: Model, layer: Layer) -> AsyncIterator[dict[str, Any]]:
    try:
        await host.catalogue.derive(name, parent, layer)
    except OSError as error:
        raise unwritable(error) from error
    yield {"status": "reading model metadata"}
    for member, value in layer.to_json().items():
        if value:
            yield {"status": f"creating {member} layer"}
    yield {"status": "writing manifest"}
    yield {"status": "success"}


async def _from_files(host: Host, name: str, files: Mapping[PurePosixPath, str]) -> AsyncIterator[dict[str, Any]]:
    place = host.catalogue.folder / "created" / urllib.parse.quote(name.casefold(), safe="")
    try:
        targets = await asyncio.to_thread(_move_blobs, host.catalogue.folder, place, files)
        model_files = sorted(path for path in targets if path.suffix.lower() == ".gguf")
        await host.catalogue.add_files(name, model_files[0] if model_files else place, targets, changed=True)
    except OSError as error:
        raise unwritable(error) from error
    yield {"status": "reading model metadata"}
    yield {"status": "writing manifest"}
    yield {"status": "success"}


def _move_blobs(folder: Path, place: Path, files: Mapping[PurePosixPath, str]) -> list[Path]:
    blobs = {place / inside: blob_path(folder, digest) for inside, digest in files.items()}
    for target, blob in blobs.items():
        if not blob.is_file() and not target.is_file():
            raise BadRequest(f"no blob {blob.name} was sent for '{target.name}': POST it to /api/blobs", param="files")
    for target, blob in blobs.items():
        if blob.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            blob.replace(target)
    return list(blobs)


def _files(fields: Fields) -> dict[PurePosixPath, str]:
    """Paths below the model's folder to digests."""
    files = fields.object("files") or {}
    if len(files) > MOST_FILES:
        raise fields.fault("files", f"{len(files)} files are named; at most {MOST_FILES} make a model")
    found = {}
    for name, digest in files.items():
        parts = name.split("/")
        if not all(re.fullmatch(r"[\w.+ -]{1,200}", part) and part not in (".", "..") for part in parts):
            raise fields.fault("files", f"{name[:200]!r} is no name of a file below a folder")
        if not isinstance(digest, str):
            raise fields.fault("files", f"expected the digest of '{name}', got {kind_of(digest)}")
        found[PurePosixPath(name)] = checked_digest(digest)
    return found


ROUTES = (
    Route("POST", "/api/create", create, dialect="ollama", summary="Make a model from another, or from files"),
    Route("POST", "/api/copy", copy, dialect="ollama", summary="Serve a model under another name too"),
    Route("DELETE", "/api/delete", delete, dialect="ollama", summary="Take an added model away"),
)
