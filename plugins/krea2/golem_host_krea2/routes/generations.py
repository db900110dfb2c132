"""`POST /v1/images/generations`."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.http.body import read_json
from golem_host.http.disconnect import result_or_disconnect
from golem_host.http.fields import Fields
from golem_host.http.requestlog import log_note
from golem_host.http.streams import stream_reply
from golem_host.http.writing import json_bytes, json_response
from golem_host.lanes.job import Job
from golem_host_krea2.model import KIND
from golem_host_krea2.picture import MULTIPLE, PictureRequest, Preview, Progress
from golem_host_krea2.png import enlarged, png
from golem_host_krea2.routes.fields import PictureFields, read_fields

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_krea2.runtime import Krea2Runtime

PROGRESS_HEADER = "x-progress-id"


async def generations(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """Draw a picture."""
    fields = read_fields(Fields(await read_json(request)))
    model = host.registry.resolve(fields.model, KIND)
    async with host.registry.use(model, fields.keep_alive) as used:
        runtime = cast("Krea2Runtime", used)
        asked = await asyncio.to_thread(_asked, runtime, fields)
        answer = _Answer(request, runtime, fields, runtime.submit(asked))
        if fields.stream:
            held = host.registry.use(model, fields.keep_alive)
            return await stream_reply(
                request, answer.job, answer.events(held), framing="sse", dialect="openai", done=None
            )
        await result_or_disconnect(request, [answer.job])
        return json_response(await answer.whole(), headers={PROGRESS_HEADER: fields.progress_id})


def _asked(runtime: Krea2Runtime, fields: PictureFields) -> PictureRequest:
    return runtime.request(
        fields.prompt,
        fields.negative,
        progress=Progress(fields.progress_id, fields.steps),
        width=fields.width,
        height=fields.height,
        steps=fields.steps,
        cfg=fields.cfg,
        seed=fields.seed,
        previews=fields.previews,
    )


@dataclass(frozen=True)
class _Answer:
    """One request's picture, whole or as events."""

    request: Request[Any, Any, Any]
    runtime: Krea2Runtime
    fields: PictureFields
    job: Job[PictureRequest]

    async def whole(self) -> dict[str, Any]:
        """OpenAI's answer, with the seed beside the picture and at the top."""
        data = {"b64_json": await self._picture(), "seed": self.fields.seed}
        return {"created": int(time.time()), "data": [data], "seed": self.fields.seed, **self._facts()}

    async def events(self, held: AbstractAsyncContextManager[Any]) -> AsyncIterator[bytes]:
        """Previews as they come, and the picture."""
        async with held:
            async for preview in self.job.events():
                yield await self._preview(preview)
            members = {"b64_json": await self._picture(), "seed": self.fields.seed, **self._facts()}
            yield _event("image_generation.completed", members)

    async def _preview(self, preview: Preview) -> bytes:
        fields = self.fields
        data = await asyncio.to_thread(lambda: png(enlarged(preview.pixels, fields.width, fields.height), {}))
        members = {"b64_json": _base64(data), "partial_image_index": preview.index, **self._facts()}
        return _event("image_generation.partial_image", members)

    async def _picture(self) -> str:
        """The finished picture as a PNG that says what it was drawn from."""
        fields, files = self.fields, self.job.request.files
        self._note()

        def write() -> str:
            texts = {
                "prompt": fields.prompt,
                "negative_prompt": fields.negative or "",
                "seed": str(fields.seed),
                "steps": str(fields.steps),
                "cfg": f"{fields.cfg:g}",
                "size": f"{fields.width}x{fields.height}",
                "sampler": "euler, simple",
                "software": "golem-host",
            }
            texts |= {f"sha256 {name}": digest for name, digest in files.digests.items()}
            return _base64(png(self.job.value, texts))

        return await asyncio.to_thread(write)

    def _facts(self) -> dict[str, Any]:
        request = self.job.request
        read = sum(len(prompt.ids) for prompt in request.prompts)
        drawn = (request.height // MULTIPLE) * (request.width // MULTIPLE)
        return {
            "output_format": "png",
            "background": "opaque",
            "quality": "auto",
            "size": f"{request.width}x{request.height}",
            "usage": {
                "input_tokens": read,
                "input_tokens_details": {"text_tokens": read, "image_tokens": 0},
                "output_tokens": drawn,
                "total_tokens": read + drawn,
            },
        }

    def _note(self) -> None:
        note = log_note(self.request)
        note.prompt_tokens = sum(len(prompt.ids) for prompt in self.job.request.prompts)
        note.waited_ms = ((self.job.started or self.job.created) - self.job.created) * 1e3
        note.extra["steps"] = self.fields.steps


def _event(kind: str, members: dict[str, Any]) -> bytes:
    body = json_bytes({"type": kind, "created_at": int(time.time()), **members})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
