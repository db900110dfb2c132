"""What happens to the jobs of a request: clients that leave, full queues, one that fails, the request line."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golem_host.app import build_app
from golem_host.errors import RequestError
from scripted_chat import Script, Served, serving

ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "endless"}]},
    "/v1/completions": {"prompt": "endless"},
    "/api/chat": {"model": "scripted", "messages": [{"role": "user", "content": "endless"}]},
    "/api/generate": {"model": "scripted", "prompt": "endless"},
}
ENDLESS = {"endless": Script(endless=True)}
PATIENCE = 10.0


class Caller:
    """One request made by hand, so that its client can leave at any moment."""

    def __init__(self, app: Any, path: str, body: dict[str, Any]) -> None:
        self.sent: list[dict[str, Any]] = []
        self.left = asyncio.Event()
        self.first = asyncio.Event()
        self._messages = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 80),
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._messages:
            return self._messages.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        if message["type"] == "http.response.body" and message.get("body"):
            self.first.set()

    async def leave(self) -> None:
        self.left.set()
        await asyncio.wait_for(self.task, PATIENCE)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


async def lane_of(served: Served) -> Any:
    async with served.host.registry.use(served.model) as runtime:
        return runtime.lane


def idle(lane: Any) -> bool:
    state = lane.state()
    return not state["queued"] and not state["running"]


def run(folder: Path, scenario: Any, **options: Any) -> None:
    async def whole() -> None:
        async with serving(folder, **options) as served:
            await scenario(served)

    asyncio.run(whole())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ROUTES)
def test_client_that_leaves_frees_its_slots(tmp_path: Path, path: str, stream: bool) -> None:
    """Whether it drew already, waits in the queue, or waits for the copy it follows."""

    async def scenario(served: Served) -> None:
        app, lane = build_app(served.host), await lane_of(served)
        body = {**ROUTES[path], "stream": stream, **({"n": 2} if path.startswith("/v1") else {})}
        callers = [Caller(app, path, body) for _ in range(3)]
        if stream:
            await asyncio.wait_for(callers[0].first.wait(), PATIENCE)
        await until(lambda: lane.state()["running"] == 2 and lane.state()["queued"] >= 1)
        for caller in reversed(callers):
            await caller.leave()
        await until(lambda: idle(lane))
        # Nobody uses the model any more, so it can be unloaded.
        assert all(resident.users == 0 for resident in served.host.registry.residents())
        response = await served.post("/v1/completions", prompt="x")
        assert response.json()["choices"][0]["text"] == "Hello there."

    run(tmp_path, scenario, scripts=ENDLESS, context=1_000_000, slots=2, pass_seconds=0.002)


def test_client_that_leaves_while_the_prompt_is_read(tmp_path: Path) -> None:
    gate = threading.Event()

    async def scenario(served: Served) -> None:
        served.model.before_pass = lambda: (gate.wait(PATIENCE), None)[1]
        lane = await lane_of(served)
        caller = Caller(build_app(served.host), "/v1/completions", {"prompt": "endless", "stream": True})
        await until(lambda: lane.state()["running"] == 1)
        await caller.leave()
        assert not any(message.get("body") for message in caller.sent)
        gate.set()
        await until(lambda: idle(lane))
        assert (await served.post("/v1/completions", prompt="x")).status_code == 200

    run(tmp_path, scenario, scripts=ENDLESS, context=1_000_000)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ROUTES)
def test_full_queue(tmp_path: Path, path: str, stream: bool) -> None:
    async def scenario(served: Served) -> None:
        app, lane = build_app(served.host), await lane_of(served)
        callers = [Caller(app, path, {**ROUTES[path], "stream": stream})]
        await until(lambda: lane.state()["running"] == 1)
        callers += [Caller(app, path, {**ROUTES[path], "stream": stream}) for _ in range(2)]
        await until(lambda: lane.state()["queued"] == 2)
        response = await served.post(path, **{**ROUTES[path], "stream": stream})
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        error = response.json()["error"]
        if path.startswith("/v1"):
            assert error["type"] == "unavailable_error"
        else:
            assert "busy" in error
        for caller in callers:
            await caller.leave()
        await until(lambda: idle(lane))
        assert (await served.post("/v1/completions", prompt="x")).status_code == 200

    run(tmp_path, scenario, scripts=ENDLESS, context=1_000_000, slots=1, queue_limit=2, pass_seconds=0.002)


def test_choices_that_find_no_place_leave_none_in_the_queue(tmp_path: Path) -> None:
    gate = threading.Event()

    async def scenario(served: Served) -> None:
        served.model.before_pass = lambda: (gate.wait(PATIENCE), None)[1]
        app, lane = build_app(served.host), await lane_of(served)
        callers = [Caller(app, "/v1/completions", ROUTES["/v1/completions"])]
        await until(lambda: lane.state()["running"] == 1)
        callers.append(Caller(app, "/v1/completions", ROUTES["/v1/completions"]))
        await until(lambda: lane.state()["queued"] == 1)
        response = await served.post("/v1/completions", prompt=["a", "b"])
        assert response.status_code == 503
        assert lane.state()["queued"] == 1
        gate.set()
        for caller in callers:
            await caller.leave()

    run(tmp_path, scenario, scripts=ENDLESS, context=1_000_000, slots=1, queue_limit=2)


def test_one_choice_that_fails_ends_its_request_alone(tmp_path: Path) -> None:
    scripts = {"bad": Script((b"a",), error=RequestError("broken")), **ENDLESS}

    async def scenario(served: Served) -> None:
        lane = await lane_of(served)
        others = [asyncio.create_task(served.post("/v1/completions", prompt="good")) for _ in range(3)]
        for stream in (False, True):
            response = await served.post("/v1/completions", prompt=["endless", "bad"], stream=stream)
            assert response.status_code == (200 if stream else 500)
            assert "broken" in response.text
        for other in others:
            assert (await other).json()["choices"][0]["text"] == "Hello there."
        await until(lambda: idle(lane))

    run(tmp_path, scenario, scripts=scripts, pass_seconds=0.002)


def test_stopping_host_refuses(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await served.host.stop()
        for path, body in ROUTES.items():
            response = await served.post(path, **body)
            assert response.status_code in (500, 503), path

    run(tmp_path, scenario)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ROUTES)
def test_request_line(tmp_path: Path, path: str, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Served) -> None:
        with caplog.at_level(logging.INFO, "golem_host.requests"):
            assert (await served.post(path, **{**ROUTES[path], "stream": stream})).status_code == 200
        [line] = [record.getMessage() for record in caplog.records if record.name == "golem_host.requests"]
        count = len(served.model.asked[0].prompt)
        assert line.startswith(f"POST {path} 200 ")
        assert f" — slot 0 — {count} prompt in 2ms" in line
        assert line.endswith("4 drawn in 4ms (1000.00/s), stop")

    run(tmp_path, scenario)


def test_request_line_of_several_choices(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Served) -> None:
        with caplog.at_level(logging.INFO, "golem_host.requests"):
            await served.post("/v1/completions", prompt="abc", n=3, max_tokens=4)
        [line] = [record.getMessage() for record in caplog.records if record.name == "golem_host.requests"]
        assert "3 prompt in 2ms" in line
        assert "12 drawn in 4ms" in line
        assert line.endswith("stop — 3 choices")

    run(tmp_path, scenario)


def test_truncation_is_logged_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Served) -> None:
        turns = [{"role": "user", "content": "1" * 60}, {"role": "assistant", "content": "2"}] * 4
        messages = [*turns, {"role": "user", "content": "x"}]
        with caplog.at_level(logging.INFO, "golem_host"):
            assert (await served.post("/api/chat", model="scripted", messages=messages)).status_code == 200
        texts = [record.getMessage() for record in caplog.records if record.name.startswith("golem_host")]
        assert any("too long" in text and "4 messages" in text for text in texts)
        assert texts[-1].endswith("stop — 4 messages left out")

    run(tmp_path, scenario)


def test_requests_of_all_kinds_at_once_equal_those_alone(tmp_path: Path) -> None:
    scripts = {"long": Script(tuple(b"word%d " % n for n in range(20))), "short": Script((b"no",))}

    async def scenario(served: Served) -> None:
        bodies: list[tuple[str, dict[str, Any]]] = []
        for word in ("long", "short", "other"):
            chat = [{"role": "user", "content": word}]
            bodies += [
                ("/v1/chat/completions", {"messages": chat, "n": 2}),
                ("/v1/completions", {"prompt": word, "repeat_penalty": 1.5}),
                ("/api/chat", {"model": "scripted", "messages": chat, "stream": False}),
                ("/api/generate", {"model": "scripted", "prompt": word, "stream": False}),
            ]

        def texts(response: Any) -> Any:
            body = response.json()
            if "choices" in body:
                return [choice.get("text", choice.get("message")) for choice in body["choices"]]
            return body.get("message", body.get("response"))

        alone = [texts(await served.post(path, **body)) for path, body in bodies]
        together = await asyncio.gather(*(served.post(path, **body) for path, body in bodies))
        assert [texts(response) for response in together] == alone

    run(tmp_path, scenario, scripts=scripts)
