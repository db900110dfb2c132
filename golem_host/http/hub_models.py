"""`POST /api/pull`: models fetched from a hub while the host serves; `POST /api/push` is refused."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from litestar import Request, Response

from golem_host import hub
from golem_host.errors import (
    BadRequest,
    Forbidden,
    NotFound,
    OperatorError,
    Overloaded,
    Unavailable,
    UsageError,
)
from golem_host.hookspecs import Route
from golem_host.http.added_models import model_field, unwritable
from golem_host.http.body import read_json
from golem_host.http.disconnect import ClientLeft, client_left
from golem_host.http.fields import Fields
from golem_host.http.streams import stream_reply
from golem_host.manifests import checked_name

if TYPE_CHECKING:
    from golem_host.host import Host

MOST_PULLS = 8
"""Pulls at once; each has a thread."""
LINE_SECONDS = 0.1
"""Least time between two lines of progress."""

_running = threading.BoundedSemaphore(MOST_PULLS)
_repositories: weakref.WeakValueDictionary[str, _Turn] = weakref.WeakValueDictionary()


class _Turn:
    """Two pulls of one repository would write into the same file: one goes after the other."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class _Stopped(Exception):
    """Nobody waits for this pull any more."""


class _Pull(threading.Thread):
    """One pull; `lines` gets what is to be told of it, and at the end `None`, its `Pulled`, or its error.

    A thread of its own, which does not keep the process from ending: the hub may keep it waiting for half a minute.
    """

    def __init__(self, host: Host, reference: hub.Reference) -> None:
        super().__init__(name=f"pull {reference.repository}", daemon=True)
        self._host = host
        self._reference = reference
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._told = 0.0
        self._turn = _repositories.setdefault(reference.repository, _Turn())
        self.lines: asyncio.Queue[dict[str, Any] | hub.Pulled | BaseException] = asyncio.Queue()

    def stop(self) -> None:
        """End it at its next piece; what arrived stays for the next pull."""
        self._stopped.set()

    def run(self) -> None:
        try:
            while not self._turn.lock.acquire(timeout=LINE_SECONDS):
                self._check()
            try:
                self._tell(hub.pull(self._reference, self._host.catalogue.folder, self))
            finally:
                self._turn.lock.release()
        except BaseException as error:
            self._tell(error)
        finally:
            _running.release()

    def chosen(self, files: Sequence[hub.RemoteFile]) -> None:
        self._check()
        self._tell({"status": "pulling manifest"})

    def fetching(self, file: hub.RemoteFile, have: int) -> None:
        self._check()
        now = time.monotonic()
        if have == file.size or now - self._told >= LINE_SECONDS:
            self._told = now
            digest = f"sha256:{file.sha256}"
            status = f"pulling {file.sha256[:12]}"
            self._tell({"status": status, "digest": digest, "total": file.size, "completed": have})

    def verifying(self, file: hub.RemoteFile) -> None:
        self._check()
        self._tell({"status": "verifying sha256 digest"})

    def _check(self) -> None:
        if self._stopped.is_set():
            raise _Stopped
        if self._host.stopping:
            raise Unavailable("the host is stopping; pull again to go on where it stopped")

    def _tell(self, what: dict[str, Any] | hub.Pulled | BaseException) -> None:
        try:
            self._loop.call_soon_threadsafe(self.lines.put_nowait, what)
        except RuntimeError:  # the loop has ended, and with it whoever would have read this
            self._stopped.set()


async def pull(request: Request[Any, Any, Any], host: Host) -> Response[bytes] | dict[str, Any]:
    """Fetch `hf.co/OWNER/REPO[:QUANT]` and serve it under that name. A client that leaves ends it."""
    fields = Fields(await read_json(request))
    written = model_field(fields)
    fields.refuse("insecure", "the hub is asked as HF_ENDPOINT says", neutral=(False,))
    stream = fields.boolean("stream", True)
    try:
        reference = hub.parse_reference(written)
    except UsageError as error:
        raise BadRequest(str(error), param="model") from None
    if reference is None:
        raise BadRequest(
            f"model '{written[:200]}' cannot be pulled: this host fetches GGUF files from a hub of them, as "
            "hf.co/OWNER/REPO[:QUANT], not from Ollama's library",
            param="model",
        )
    name = checked_name(
        f"hf.co/{reference.repository}" + (f":{reference.quantization}" if reference.quantization else "")
    )
    host.catalogue.require_free(name)
    lines = _lines(host, name, reference)
    if stream:
        return await stream_reply(request, (), lines, framing="ndjson", dialect="ollama", done=None)
    return await _last(request, lines)


async def push(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """Refused: nothing leaves this host."""
    await read_json(request)
    raise BadRequest("this host publishes nothing: models are only served here")


async def _lines(host: Host, name: str, reference: hub.Reference) -> AsyncIterator[dict[str, Any]]:
    if not _running.acquire(blocking=False):
        raise Overloaded(f"{MOST_PULLS} models are being pulled already", retry_after=30)
    running = _Pull(host, reference)
    running.start()
    try:
        while isinstance(told := await running.lines.get(), dict):
            yield told
    finally:
        running.stop()
    if isinstance(told, BaseException):
        raise _refusal(told) from told
    yield {"status": "writing manifest"}
    try:
        await host.catalogue.add_files(name, told.files[0], told.files, changed=told.changed)
    except OSError as error:
        raise unwritable(error) from error
    yield {"status": "success"}


def _refusal(error: BaseException) -> BaseException:
    """What a client is told of a pull that failed."""
    if isinstance(error, hub.HubRefused) and error.code == 404:
        return NotFound(str(error), param="model")
    if isinstance(error, hub.HubRefused) and error.code in (401, 403):
        return Forbidden(str(error), param="model")
    if isinstance(error, hub.HubRefused | hub.HubUnreachable):
        return Unavailable(str(error), retry_after=10)
    if isinstance(error, OperatorError):
        return BadRequest(str(error), param="model")
    return error


async def _last(request: Request[Any, Any, Any], lines: AsyncIterator[dict[str, Any]]) -> dict[str, Any]:
    """The last line. Raises ClientLeft."""

    async def read() -> dict[str, Any]:
        last: dict[str, Any] = {}
        async for line in lines:
            last = line
        return last

    left, reading = asyncio.create_task(client_left(request)), asyncio.create_task(read())
    try:
        await asyncio.wait({left, reading}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            return reading.result()
        raise ClientLeft
    finally:
        left.cancel()
        reading.cancel()
        await asyncio.gather(left, reading, return_exceptions=True)


ROUTES = (
    Route("POST", "/api/pull", pull, dialect="ollama", summary="Fetch a model from a hub and serve it"),
    Route("POST", "/api/push", push, dialect="ollama", summary="Refused: nothing is published"),
)
