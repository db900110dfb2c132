"""`POST /v1/audio/transcriptions` (OpenAI): what an audio file says, in one piece or as it is heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.errors import BadRequest
from golem_host.http.disconnect import result_or_disconnect
from golem_host.http.fields import Fields
from golem_host.http.form import read_form
from golem_host.http.requestlog import RequestNote, log_note
from golem_host.http.streams import stream_reply
from golem_host.http.writing import json_response, text_response
from golem_host_stt.audio import decode
from golem_host_stt.listening import Delta, Transcript
from golem_host_stt.model import KIND, SttModel
from golem_host_stt.routes import formats
from golem_host_stt.routes.unserved import refuse
from golem_host_stt.streams import Whole

if TYPE_CHECKING:
    from golem_host.api import Job
    from golem_host.host import Host
    from golem_host_stt.checkpoint import Timing
    from golem_host_stt.runtime import SttRuntime

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
GRANULARITIES = ("word", "segment")

_decoding = asyncio.Semaphore(2)
"""Files that are decoded at once: each takes a thread, and memory of its own."""


@dataclass(frozen=True)
class Asked:
    """What a request wants of its transcript."""

    format: str
    granularities: set[str]
    language: str
    stream: bool


async def transcriptions(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """A transcript, whole or streamed."""
    form = await read_form(request)
    fields = form.reader()
    refuse(fields)
    model = cast("SttModel", host.registry.resolve(fields.string("model"), KIND))
    asked = read_fields(fields, model)
    if form.file is None:
        raise BadRequest("Field 'file': an audio file is required", param="file")
    async with _decoding:
        recording = await asyncio.to_thread(_recording, form.file, model.timing)
    note = log_note(request)
    note.extra["s of audio"] = round(recording.seconds, 1)
    async with AsyncExitStack() as stack:
        runtime = cast("SttRuntime", await stack.enter_async_context(host.registry.use(model)))
        job = runtime.transcribe(recording, logprobs=asked.format == "verbose_json")
        if asked.stream:
            # The model stays in use until the stream has ended.
            chunks = _chunks(job, note, stack.pop_all())
            return await stream_reply(request, job, chunks, framing="sse", dialect="openai", done=b"data: [DONE]\n\n")
        [transcript] = await result_or_disconnect(request, [job])
        _note(note, job)
    return await asyncio.to_thread(_written, transcript, asked)


def _recording(raw: bytes, timing: Timing) -> Whole:
    return Whole(decode(raw), timing)


def read_fields(fields: Fields, model: SttModel) -> Asked:
    """The fields of a request. Raises BadRequest, naming the field, for a value that is not served."""
    format = fields.string("response_format", "json")
    if format not in FORMATS:
        raise fields.fault("response_format", f"expected {', '.join(FORMATS)}, got {format[:100]!r}")
    stream = fields.boolean("stream", False)
    if stream and format not in ("json", "text"):
        raise fields.fault("stream", f"a transcript as {format} is not streamed; ask for json")
    if fields.number("temperature", 0.0) != 0:
        raise fields.fault("temperature", "only 0 is served; the likeliest token is taken always")
    language = check_language(fields.string("language"), model, "language")
    return Asked(format, _granularities(fields, format), language, stream)


def _granularities(fields: Fields, format: str) -> set[str]:
    name = "timestamp_granularities"
    given = fields.array(name)
    if given is None:
        return {"segment"}
    if format != "verbose_json":
        raise fields.fault(name, "times are told with response_format=verbose_json only")
    unknown = [each for each in given if each not in GRANULARITIES]
    if unknown:
        raise fields.fault(name, f"expected word or segment, got {unknown[0][:100]!r}")
    return set(given)


def check_language(given: str | None, model: SttModel, name: str) -> str:
    """The language that the answer names: these models hear what is spoken, whatever they are told. Raises BadRequest,
    naming the field `name`.
    """
    known = model.languages
    if given is None:
        return known[0] if len(known) == 1 else ""
    if given not in known:
        hears = f"hears {', '.join(known)}" if known else "does not say which languages it hears; leave the field out"
        raise BadRequest(f"Field '{name}': {model.name} {hears}, got {given[:100]!r}", param=name)
    return given


async def _chunks(job: Job[Any], note: RequestNote, using: AsyncExitStack) -> AsyncIterator[dict[str, Any]]:
    async with using:
        async for event in job.events():
            if isinstance(event, Delta):
                yield {"type": "transcript.text.delta", "delta": event.text}
        transcript: Transcript = job.value
        _note(note, job)
        yield {"type": "transcript.text.done", "text": transcript.text, "usage": formats.usage(transcript)}


def _written(transcript: Transcript, asked: Asked) -> Response[bytes]:
    match asked.format:
        case "text":
            return text_response(transcript.text + "\n")
        case "srt":
            return text_response(formats.srt(transcript))
        case "vtt":
            return text_response(formats.vtt(transcript))
        case "verbose_json":
            return json_response(formats.verbose(transcript, asked.language, asked.granularities))
        case _:
            return json_response({"text": transcript.text, "usage": formats.usage(transcript)})


def _note(note: RequestNote, job: Job[Any]) -> None:
    if job.started is not None and job.ended is not None:
        note.waited_ms = (job.started - job.created) * 1e3
        note.drawn, note.drawn_ms = len(job.value.tokens), (job.ended - job.started) * 1e3
