"""`/v1/realtime`: OpenAI's realtime API over a WebSocket, of sessions that only transcribe.

What is appended to the buffer is heard at once. A commit makes an item of it, whose transcript is what
`/v1/audio/transcriptions` says of the same samples.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from litestar import WebSocket
from litestar.exceptions import WebSocketDisconnect

from golem_host.errors import BadRequest, RequestError
from golem_host.http.requestlog import RequestNote, scope_note
from golem_host.lanes.job import JobCancelled
from golem_host_stt.audio import MIN_SECONDS, Samples
from golem_host_stt.mimi_config import FRAME, FRAME_RATE, SAMPLE_RATE
from golem_host_stt.model import KIND, SttModel
from golem_host_stt.routes.formats import seconds_begun
from golem_host_stt.routes.limits import BUFFER_SECONDS, SEND_SECONDS, SILENT_SECONDS, Left
from golem_host_stt.routes.realtime_events import (
    MAX_BYTES,
    check_event,
    described,
    error_of,
    new_id,
    read_audio,
    read_event,
    read_session,
    write,
)
from golem_host_stt.routes.transcriptions import check_language
from golem_host_stt.streams import silence
from golem_host_stt.text import RunningText

if TYPE_CHECKING:
    from golem_host.api import Fields, Job
    from golem_host.host import Host
    from golem_host_stt.listening import Request
    from golem_host_stt.runtime import SttRuntime
    from golem_host_stt.streams import Live

MOST_ITEMS = 4
"""Of one client that are heard: more are read when one of them is done."""
TRANSCRIPTION = "conversation.item.input_audio_transcription"


async def realtime(socket: WebSocket[Any, Any, Any], host: Host) -> None:
    """One session. The query parameter `model` names the model where several are served."""
    query = socket.query_params
    for name in query:
        if name not in ("model", "intent"):
            raise BadRequest(f"unknown query parameter '{name[:100]}'; known: model, intent", param=name[:100])
    if query.get("intent", "transcription") != "transcription":
        raise BadRequest("'intent': only transcription is served", param="intent")
    model = cast("SttModel", host.registry.resolve(query.get("model"), KIND))
    async with host.registry.use(model) as used:
        # Browsers give up where none of the protocols they offer is taken.
        await socket.accept(subprotocols="realtime" if "realtime" in socket.scope["subprotocols"] else None)
        await _Session(socket, host, model, cast("SttRuntime", used)).run(scope_note(socket.scope))


@dataclass
class _Item:
    """A part of the audio that becomes one transcript. `last` is its last step, once it was committed."""

    job: Job[Request]
    running: RunningText
    samples: int = 0
    last: int | None = None
    cleared: bool = False
    id: str = field(default_factory=lambda: new_id("item"))
    told: list[str] = field(default_factory=list)

    @property
    def audio(self) -> Live:
        return cast("Live", self.job.request.source)


class _Session:
    """Reads events one after the other; each item has a task that tells what is heard of it."""

    def __init__(self, socket: WebSocket[Any, Any, Any], host: Host, model: SttModel, runtime: SttRuntime) -> None:
        self._socket, self._host, self._model, self._runtime = socket, host, model, runtime
        self._language = check_language(None, model, "language")
        self._item: _Item | None = None
        self._committed: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._received = 0

    async def run(self, note: RequestNote) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen(group))
        except* (Left, WebSocketDisconnect):
            note.client_left = True
        except* JobCancelled:
            note.error = "the host is stopping, or the model was unloaded"
            with suppress(Left, WebSocketDisconnect):
                error = RequestError(note.error)
                await self._send("error", error=error_of(error, None))
                await self._socket.close(1011)
        finally:
            if self._item is not None:
                self._item.job.cancel()
        note.extra["s of audio"] = round(self._received / SAMPLE_RATE, 1)

    async def _listen(self, group: asyncio.TaskGroup) -> None:
        await self._send("session.created", session=described(self._model.name, self._language))
        async for raw in self._events():
            name: str | None = None
            try:
                event = read_event(raw)
                name = event.string("event_id")
                await self._take(check_event(event), event, group)
            except RequestError as error:
                await self._send("error", error=error_of(error, name))

    async def _events(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(SILENT_SECONDS if self._item is not None else None):
                    message = await self._socket.receive()
            except TimeoutError:
                silent = BadRequest(f"nothing was sent for {SILENT_SECONDS:g} s")
                await self._send("error", error=error_of(silent, None))
                raise Left from None
            if message["type"] != "websocket.receive":
                raise Left
            text = message.get("text")
            # Encoded bytes are as many as characters or more: what is too long is not encoded first.
            yield message.get("bytes") or (text or "")[: MAX_BYTES + 1].encode("utf-8", "replace")

    async def _take(self, kind: str, event: Fields, group: asyncio.TaskGroup) -> None:
        match kind:
            case "session.update":
                self._update(read_session(event))
                await self._send("session.updated", session=described(self._model.name, self._language))
            case "input_audio_buffer.append":
                await self._append(read_audio(event), group)
            case "input_audio_buffer.commit":
                await self._commit()
            case _:
                if self._item is not None:
                    self._item.cleared = True
                    self._item.job.cancel()
                    self._item = None
                await self._send("input_audio_buffer.cleared")

    def _update(self, given: Fields) -> None:
        language = check_language(given.string("language"), self._model, f"{given.prefix}language")
        name = given.string("model")
        if name is not None and self._host.registry.resolve(name, KIND) is not self._model:
            raise given.fault("model", f"this session has {self._model.name}; connect with the query ?model={name}")
        if given.has("language"):
            self._language = language

    async def _append(self, samples: Samples, group: asyncio.TaskGroup) -> None:
        if self._item is None or self._item.job.end is not None:
            while len(self._tasks) >= MOST_ITEMS:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self._item = _Item(self._runtime.listen(), RunningText(self._runtime.pieces))
            task = group.create_task(self._tell(self._item))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._push(self._item, np.zeros(silence(0, self._runtime.timing)[0], np.float32))
        item = self._item
        item.samples += len(samples)
        self._received += len(samples)
        self._push(item, samples)
        while item.audio.waiting > BUFFER_SECONDS * FRAME_RATE and item.job.end is None:
            await asyncio.sleep(1 / FRAME_RATE)

    async def _commit(self) -> None:
        item = self._item
        if item is None or item.samples < MIN_SECONDS * SAMPLE_RATE:
            there = 0.0 if item is None else item.samples / SAMPLE_RATE
            raise BadRequest(
                f"the buffer holds {there:g} s of audio; at least {MIN_SECONDS} s can be committed",
                code="input_audio_buffer_commit_empty",
            )
        self._item = None
        before, after = silence(item.samples, self._runtime.timing)
        item.last = 1 + (before + item.samples + after) // FRAME
        self._push(item, np.zeros(after, np.float32))
        await self._send("input_audio_buffer.committed", item_id=item.id, previous_item_id=self._committed)
        self._committed = item.id

    def _push(self, item: _Item, samples: Samples) -> None:
        if item.audio.push(samples):
            self._runtime.lane.wake()

    async def _tell(self, item: _Item) -> None:
        """The text of an item as it is heard, and all of it in the end."""
        where = {"item_id": item.id, "content_index": 0}
        try:
            async for heard in item.job.events():
                await self._delta(item, item.running.add(heard.token), where)
                if heard.step == item.last:
                    break
        except JobCancelled:
            if not item.cleared:
                raise
            return
        except RequestError as error:
            await self._send(f"{TRANSCRIPTION}.failed", **where, error=error_of(error, None))
            return
        finally:
            item.job.cancel()
        await self._delta(item, item.running.end(), where)
        usage = {"type": "duration", "seconds": seconds_begun(item.samples / SAMPLE_RATE)}
        await self._send(f"{TRANSCRIPTION}.completed", **where, transcript="".join(item.told), usage=usage)

    async def _delta(self, item: _Item, text: str, where: dict[str, Any]) -> None:
        if text:
            item.told.append(text)
            await self._send(f"{TRANSCRIPTION}.delta", **where, delta=text)

    async def _send(self, kind: str, **members: Any) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._socket.send_text(write(kind, **members))
        except (TimeoutError, RuntimeError):
            raise Left from None
