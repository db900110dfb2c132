"""`/api/asr-streaming`: live audio over a WebSocket, in Kyutai's protocol (Rust's `moshi-server`).

In: Audio, Marker (and Init, which changes nothing). Out: Ready, then Word, EndWord, Step, Marker, and Error before the
end.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from litestar import WebSocket
from litestar.exceptions import WebSocketDisconnect

from golem_host.errors import RequestError, Unavailable
from golem_host.http.requestlog import RequestNote, scope_note
from golem_host.lanes.job import JobCancelled
from golem_host_stt.listening import Heard
from golem_host_stt.mimi_config import FRAME, FRAME_RATE, SAMPLE_RATE
from golem_host_stt.model import KIND
from golem_host_stt.routes.limits import BUFFER_SECONDS, SEND_SECONDS, SILENT_SECONDS, Left
from golem_host_stt.routes.messages import BadMessage, Marker, read, write
from golem_host_stt.words import WordBegun

if TYPE_CHECKING:
    from golem_host.api import Job
    from golem_host.host import Host
    from golem_host_stt.listening import Request
    from golem_host_stt.runtime import SttRuntime
    from golem_host_stt.streams import Live

SEAT_SECONDS = 2.0
"""How long a client waits for a stream to become free, and ..."""
BUSY_SECONDS = 20.0
"""... for one that is free, until the device comes round to it."""


async def asr_streaming(socket: WebSocket[Any, Any, Any], host: Host) -> None:
    """One live stream. The query parameter `model` names the model where several are served."""
    model = host.registry.resolve(socket.query_params.get("model"), KIND)
    async with host.registry.use(model) as used:
        runtime = cast("SttRuntime", used)
        job = runtime.listen()
        try:
            await socket.accept()
            await _Stream(socket, runtime, job, scope_note(socket.scope)).run()
        finally:
            job.cancel()


class _Stream:
    """A task that reads what the client sends, and one that tells what is heard."""

    def __init__(
        self, socket: WebSocket[Any, Any, Any], runtime: SttRuntime, job: Job[Request], note: RequestNote
    ) -> None:
        self._socket, self._runtime, self._job, self._note = socket, runtime, job, note
        self._audio = cast("Live", job.request.source)
        self._delay = int(runtime.timing.delay * FRAME_RATE)
        self._markers: deque[tuple[int, int]] = deque()
        self._steps = 0

    async def run(self) -> None:
        try:
            await self._wait_for_seat()
            tasks = [asyncio.create_task(self._tell()), asyncio.create_task(self._listen())]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        except (Left, WebSocketDisconnect):
            self._note.client_left = True
        except (BadMessage, RequestError, JobCancelled) as error:
            text = "the host is stopping, or the model was unloaded" if isinstance(error, JobCancelled) else str(error)
            self._note.error = text
            with suppress(Left, WebSocketDisconnect):
                await self._send("Error", message=text)
                await self._socket.close(1008 if isinstance(error, BadMessage) else 1011)
        self._note.extra["s of audio"] = round(self._audio.received / SAMPLE_RATE, 1)

    async def _wait_for_seat(self) -> None:
        begun = time.monotonic()
        while self._job.started is None and self._job.end is None:
            waited = time.monotonic() - begun
            if waited > SEAT_SECONDS and not self._runtime.room:
                raise Unavailable("no free channels")
            if waited > BUSY_SECONDS:
                raise Unavailable("the device is busy")
            await asyncio.sleep(0.02)
        await self._send("Ready")

    async def _listen(self) -> None:
        while True:
            try:
                async with asyncio.timeout(SILENT_SECONDS):
                    message = await self._socket.receive()
            except TimeoutError:
                raise BadMessage(f"nothing was sent for {SILENT_SECONDS:g} s") from None
            if message["type"] != "websocket.receive":
                raise Left
            raw = message.get("bytes")
            if raw is None:  # text says nothing in this protocol
                continue
            await self._take(read(raw))

    async def _take(self, message: Any) -> None:
        if isinstance(message, Marker):
            # heard when the step of the last frame before it, and the delay after that, are over
            frames = self._audio.received // FRAME
            self._markers.append((1 + frames + self._delay, message.id))
            await self._send_markers()
        elif isinstance(message, np.ndarray):
            if self._audio.push(message):
                self._runtime.lane.wake()
            while self._audio.waiting > BUFFER_SECONDS * FRAME_RATE:
                await asyncio.sleep(1 / FRAME_RATE)

    async def _tell(self) -> None:
        async for event in self._job.events():
            if isinstance(event, Heard):
                await self._send_heard(event)

    async def _send_heard(self, heard: Heard) -> None:
        self._steps = heard.step
        if heard.pauses:
            buffered = heard.waiting * FRAME
            await self._send("Step", step_idx=heard.step, prs=list(heard.pauses), buffered_pcm=buffered)
        for each in heard.words:
            if isinstance(each, WordBegun):
                text = self._runtime.pieces.text(each.tokens)
                await self._send("Word", text=text, start_time=each.start)
            else:
                await self._send("EndWord", stop_time=each.stop)
        await self._send_markers()

    async def _send_markers(self) -> None:
        while self._markers and self._markers[0][0] <= self._steps:
            await self._send("Marker", id=self._markers.popleft()[1])

    async def _send(self, kind: str, **members: Any) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._socket.send_bytes(write(kind, **members))
        except (TimeoutError, RuntimeError):
            raise Left from None
