"""`/api/blobs/{digest}`: files sent to the host, from which `/api/create` makes models."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from litestar import Request, Response

from golem_host.errors import BadRequest, InternalError, NotFound, PayloadTooLarge
from golem_host.hookspecs import Route
from golem_host.parsers import show_size

if TYPE_CHECKING:
    from golem_host.host import Host

PIECE_BYTES = 4 << 20
"""Written and hashed at once, on a worker thread."""
SPARE_BYTES = 256 << 20
"""What an upload leaves free on the disk."""


async def has_blob(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """`HEAD /api/blobs/{digest}`: whether it is there."""
    digest = checked_digest(request.path_params["digest"])
    if not blob_path(host.catalogue.folder, digest).is_file():
        raise NotFound(f"there is no blob sha256:{digest}")
    return Response(b"")


async def put_blob(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """`POST /api/blobs/{digest}`: keep the body, whose sha256 must be the digest."""
    digest = checked_digest(request.path_params["digest"])
    target = blob_path(host.catalogue.folder, digest)
    if target.is_file():
        return Response(b"", status_code=200)
    try:
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        await _receive(request, digest, target)
    except OSError as error:
        raise InternalError(f"the model folder cannot be written: {error.strerror or error}") from error
    return Response(b"", status_code=201)


def checked_digest(digest: str) -> str:
    """The 64 hex digits of `sha256:…` (or `sha256-…`). Raises BadRequest."""
    match = re.fullmatch(r"sha256[:-]([0-9a-fA-F]{64})", digest)
    if match is None:
        raise BadRequest(f"invalid digest '{digest[:100]}': expected sha256: and 64 hex digits")
    return match[1].lower()


def blob_path(folder: Path, digest: str) -> Path:
    """Where the blob of that sha256 lies in the model folder."""
    return folder / "blobs" / f"sha256-{digest}"


async def _receive(request: Request[Any, Any, Any], digest: str, target: Path) -> None:
    sha256 = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".part", delete=False) as draft:
        try:

            def keep(piece: bytes) -> None:
                free = shutil.disk_usage(target.parent).free
                if free < len(piece) + SPARE_BYTES:
                    raise PayloadTooLarge(f"the disk of the model folder has only {show_size(free)} left")
                sha256.update(piece)
                draft.write(piece)

            waiting = bytearray()
            async for chunk in request.stream():
                waiting += chunk
                if len(waiting) >= PIECE_BYTES:
                    await asyncio.to_thread(keep, bytes(waiting))
                    waiting.clear()
            await asyncio.to_thread(keep, bytes(waiting))
            if sha256.hexdigest() != digest:
                raise BadRequest(f"digest mismatch, expected sha256:{digest}, got sha256:{sha256.hexdigest()}")
            await asyncio.to_thread(draft.flush)
            Path(draft.name).replace(target)
        finally:
            Path(draft.name).unlink(missing_ok=True)


ROUTES = (
    Route("HEAD", "/api/blobs/{digest:str}", has_blob, dialect="ollama", summary="Whether a blob is here"),
    Route("POST", "/api/blobs/{digest:str}", put_blob, dialect="ollama", summary="Send a blob"),
)
