"""llama-server's `/slots`: what each slot does; saving, restoring and erasing one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from litestar import Request

from golem_host.errors import BadRequest, InternalError, NotSupported, Unavailable
from golem_host.http.body import read_json
from golem_host.http.disconnect import result_or_disconnect
from golem_host.http.fields import Fields
from golem_host.lanes.job import Job
from golem_host_chat.file_names import is_file_name
from golem_host_chat.routes.generation_settings import generation_settings
from golem_host_chat.routes.llama_models import asked_base
from golem_host_chat.slot_actions import SlotAction, copied, erased, put
from golem_host_chat.slot_files import SlotFileError, read_slot, write_slot
from golem_host_chat.slot_report import SlotReport

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_chat.runtime import ChatRuntime

REPORT_SECONDS = 10.0
"""How long a device may take to come round to telling; a pass takes a tenth of a second."""


async def slots(request: Request[Any, Any, Any], host: Host) -> list[dict[str, Any]]:
    """The slots of the query's `model`. One that is not in memory stays out of it: its slots are idle."""
    if not host.settings["slots"]:
        raise NotSupported("This server does not support slots endpoint. Start it without `--no-slots`")
    model = asked_base(request, host)
    runtime = cast("ChatRuntime | None", host.registry.loaded(model))
    if runtime is None:
        context = model.slot_context(host.settings)
        reports = [SlotReport(slot) for slot in range(host.settings["parallel"])]
    else:
        context = runtime.context
        try:
            reports = await asyncio.wait_for(asyncio.wrap_future(runtime.slot_reports()), REPORT_SECONDS)
        except (TimeoutError, RuntimeError) as error:
            raise Unavailable(f"the device of model '{model.name}' does not answer") from error
    if request.query_params.get("fail_on_no_slot") and all(report.processing for report in reports):
        raise Unavailable("no slot available")
    return [_shown(report, context) for report in reports]


async def slot_action(request: Request[Any, Any, Any], host: Host) -> dict[str, Any]:
    """Save a slot, restore it or erase it, as soon as it is free."""
    folder: Path | None = host.settings["slot-save-path"]
    if folder is None:
        raise NotSupported("This server does not support slots action. Start it with `--slot-save-path`")
    action = request.query_params.get("action")
    if action not in ("save", "restore", "erase"):
        raise BadRequest("Invalid action: it is save, restore or erase", param="action")
    fields = Fields(await read_json(request)) if await request.body() or action != "erase" else Fields({})
    path = None if action == "erase" else folder / _file_name(fields)
    model = asked_base(request, host, fields.string("model"))
    async with host.registry.use(model) as used:
        runtime = cast("ChatRuntime", used)
        slots = _Slot(request, host, runtime, _number(request.path_params["slot"], runtime.slots))
        if path is None:
            return await slots.erase()
        return await (slots.save(path) if action == "save" else slots.restore(path))


class _Slot:
    """One slot and the request that is about it."""

    def __init__(self, request: Request[Any, Any, Any], host: Host, runtime: ChatRuntime, number: int) -> None:
        self._request = request
        self._host = host
        self._runtime = runtime
        self._number = number
        self._started = time.monotonic()

    async def save(self, path: Path) -> dict[str, Any]:
        identity = await self._identity()
        saved = await self._do(copied)
        try:
            written = await asyncio.to_thread(write_slot, path, saved, identity)
        except OSError as error:
            raise InternalError(f"Unable to save slot: {error.strerror or error}") from error
        timings = {"save_ms": self._milliseconds()}
        return self._answer(path, n_saved=len(saved.tokens), n_written=written, timings=timings)

    async def restore(self, path: Path) -> dict[str, Any]:
        runtime, identity = self._runtime, await self._identity()
        memory, vocab_size = runtime.passes.memory, runtime.passes.vocab_size
        try:
            saved = await asyncio.to_thread(
                read_slot, path, memory, identity, context=runtime.context, vocab_size=vocab_size
            )
            size = path.stat().st_size
        except (SlotFileError, OSError) as error:
            await self._do(erased)
            raise BadRequest(f"Unable to restore slot: {error}", param="filename") from error
        await self._do(put(saved))
        timings = {"restore_ms": self._milliseconds()}
        return self._answer(path, n_restored=len(saved.tokens), n_read=size, timings=timings)

    async def erase(self) -> dict[str, Any]:
        return {"id_slot": self._number, "n_erased": await self._do(erased)}

    async def _identity(self) -> dict[str, Any]:
        """What a file must have in common with this model, its files' content first."""
        digests = [await self._host.registry.file_digest(path) for path in self._runtime.files]
        return {"model": digests, **self._runtime.slot_identity()}

    async def _do(self, act: Any) -> Any:
        """What the slot makes of `act` once no conversation has it."""
        job: Job[SlotAction] = Job(SlotAction(self._number, act))
        self._runtime.lane.submit(job)
        [result] = await result_or_disconnect(self._request, [job])
        return result

    def _answer(self, path: Path, **members: Any) -> dict[str, Any]:
        return {"id_slot": self._number, "filename": path.name, **members}

    def _milliseconds(self) -> float:
        return (time.monotonic() - self._started) * 1e3


def _file_name(fields: Fields) -> str:
    name = fields.string("filename")
    if name is None:
        raise BadRequest("'filename' is required", param="filename")
    if not is_file_name(name):
        raise BadRequest("Invalid filename", param="filename")
    return name


def _number(text: str, slots: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < slots):
        raise BadRequest(f"Invalid slot ID: there are {slots}, from 0 on", param="id_slot")
    return int(text)


def _shown(report: SlotReport, context: int) -> dict[str, Any]:
    shown = {"id": report.slot, "n_ctx": context, "speculative": False, "is_processing": report.processing}
    if report.job is None:
        return shown
    return {
        **shown,
        "id_task": report.job,
        "n_prompt_tokens": report.tokens,
        "n_prompt_tokens_processed": report.read,
        "n_prompt_tokens_cache": report.cached,
        "params": generation_settings(report.params, max_tokens=report.max_tokens),
        "next_token": [
            {
                "has_next_token": report.processing,
                "has_new_line": report.has_new_line,
                "n_remain": report.left,
                "n_decoded": report.drawn,
            }
        ],
    }
