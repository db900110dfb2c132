"""`POST /v1/systemone` and `/v1/systemone/batch`: typed decisions, as laya's own server (`laya.serve`) answers them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.errors import Unprocessable
from golem_host.http.disconnect import result_or_disconnect
from golem_host.http.keep_alive import parse_keep_alive
from golem_host.http.off_loop import off_loop
from golem_host.http.requestlog import log_note
from golem_host.http.writing import json_response
from golem_host_laya.abstention import mark
from golem_host_laya.answers import nothing_asked
from golem_host_laya.questions import read_questions
from golem_host_laya.routes.body import (
    Controls,
    check_batch,
    check_batch_controls,
    check_single,
    read_body,
    read_controls,
)
from golem_host_laya.routes.models import choose

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_laya.runtime import Asked, LayaRuntime


async def systemone(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """Answers to questions about one state."""
    body = await read_body(request)
    check_single(body)
    controls = read_controls(body)
    [result], seconds = await _answered(request, host, body, [body["state"]], controls)
    return _written(result, seconds)


async def batch(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """Answers to the same questions about each state."""
    body = await read_body(request)
    check_batch(body)
    controls = read_controls(body)
    check_batch_controls(body)
    results, seconds = await _answered(request, host, body, body["states"], controls)
    totals = {key: sum(result["usage"][key] for result in results) for key in ("input_tokens", "output_tokens")}
    return _written({"results": results, "total_usage": totals}, seconds)


async def _answered(
    request: Request[Any, Any, Any], host: Host, body: dict[str, Any], states: Sequence[Any], controls: Controls
) -> tuple[list[dict[str, Any]], float]:
    """The result for each state, and the seconds from the first job's start to the last one's end."""
    model = choose(host, body.get("model"))
    keep_alive = parse_keep_alive(body.get("keep_alive"))
    async with host.registry.use(model, keep_alive) as used:
        runtime = cast("LayaRuntime", used)

        def prepare() -> list[Asked]:
            try:
                questions = read_questions(body["questions"])
                if not questions:
                    return []
                return [runtime.ask(state, questions, whole=controls.whole, head=controls.head) for state in states]
            except ValueError as error:
                raise Unprocessable(str(error)) from None
            except RecursionError:
                raise Unprocessable("a question is nested too deeply") from None

        with runtime.lane.arriving():
            asked = await off_loop(request, prepare)
        if not asked:
            return [nothing_asked() for _ in states], 0.0
        note = log_note(request)
        note.prompt_tokens = sum(sum(each.costs) for each in asked)
        note.extra["questions"] = sum(len(each.costs) for each in asked)
        jobs = [runtime.submit(each) for each in asked]
        results = await result_or_disconnect(request, jobs)
        begin = min((job.started for job in jobs if job.started is not None), default=jobs[0].created)
        seconds = max(job.ended or time.monotonic() for job in jobs) - begin
        note.waited_ms, note.prompt_ms = (begin - jobs[0].created) * 1e3, seconds * 1e3
    for result in results:
        for answer in result["answers"].values():
            mark(answer, controls.threshold)
    return results, seconds


def _written(result: dict[str, Any], seconds: float) -> Response[bytes]:
    took = f"{seconds * 1e3:.2f}"
    headers = {"Server-Timing": f"inference;dur={took}", "X-Inference-Time-Ms": took}
    try:
        return json_response(result, headers=headers)
    except ValueError as error:  # a label that is NaN, which Python's JSON reads
        raise Unprocessable(str(error)) from None
