"""The real command on a real port, with a plugin small enough to stand here: start, errors at start, ways to stop."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from golem_host.testing.command import Command
from golem_host.testing.distributions import write_distribution

ECHO = """
import asyncio, json, time
from pathlib import Path
from litestar import Response
from golem_host.api import Model, ModelFileError, OneShotLane, Route, Setting, hookimpl
from golem_host.config import named_path

GOLEM_HOST_API = 1

class Loaded:
    def __init__(self, name):
        self.lane = OneShotLane(
            name, lambda parts: [part.job.finish(part.job.request) for part in parts], kind="echo",
            costs=lambda job: [1], budget=8, gather_below=1, gather_seconds=0.0,
        )
    def close(self):
        pass

class EchoModel(Model):
    kind, plugin, family, quantization, parameter_count = "echo", "echo", "parrot", "F32", 1_500_000
    def __init__(self, given):
        self.path = given.path
        self.name = given.name or given.path.stem
        self.size_bytes = given.path.stat().st_size
    def load(self, device, settings, progress):
        content = self.path.read_text()
        while content == "slow" and not self.path.with_name("go").exists():
            time.sleep(0.01)
        if content == "broken":
            raise ModelFileError(self.path, "is broken on purpose")
        return Loaded(self.name)
    def describe(self, settings):
        return "8 slots"

@hookimpl
def golem_settings():
    return [Setting("echo-model", named_path, (), "Model.", repeatable=True)]

@hookimpl
def golem_models(settings):
    return [EchoModel(given) for given in settings["echo-model"]]

async def answer(request, host):
    return {"said": (await request.body()).decode()}

async def slow(request, host):
    print("slow begins", flush=True)
    await asyncio.sleep(float(request.query_params["seconds"]))
    return {"done": True}

async def flood(request, host):
    return Response(b"a" * 2**26)

async def size(request, host):
    total = 0
    async for chunk in request.stream():
        total += len(chunk)
    return {"bytes": total}

@hookimpl
def golem_routes():
    return [
        Route("POST", "/echo", answer, dialect="openai", summary="Echo"),
        Route("GET", "/slow", slow, dialect="openai", summary="Slow echo"),
        Route("GET", "/flood", flood, dialect="openai", summary="More than any buffer holds"),
        Route("POST", "/size", size, dialect="openai", summary="Size of a body"),
    ]
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What makes the echo plugin an installed one."""
    site = tmp_path / "site"
    write_distribution(site, "golem-echo", plugins={"echo": "echo_plugin"}, modules={"echo_plugin": ECHO})
    (tmp_path / "parrot.bin").write_text("good")
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))),
        "GOLEM_HOME": str(tmp_path / "home"),
    }


@pytest.fixture
def command(environment: dict[str, str]) -> Iterator:
    """Start `golem-host`: command("--enable", "echo", ...)."""
    running: list[Command] = []

    def start(*words: str) -> Command:
        running.append(Command(*words, env=environment))
        return running[-1]

    yield start
    for one in running:
        one.process.kill()
        one.end()


@pytest.fixture
def flags(tmp_path: Path) -> list[str]:
    return ["--enable", "echo", "--echo-model", f"polly={tmp_path / 'parrot.bin'}", "--addr", "127.0.0.1:0"]


def get(url: str, data: bytes | None = None) -> tuple[int, dict]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=60) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_start_serve_and_stop(command, flags):
    host = command(*flags)
    url = host.url
    line = host.wait_for("^polly: ")
    assert re.fullmatch(r"polly: parrot 1\.5M, F32 4 B, 8 slots, cpu, loaded in \d+\.\d\d s", line.string)
    host.wait_for(f"listening on {re.escape(url)}")
    assert get(url + "/health") == (200, {"status": "ok"})
    assert get(url + "/echo", b"hello") == (200, {"said": "hello"})
    assert get(url + "/size", bytes(20_000_000)) == (200, {"bytes": 20_000_000})
    assert get(url + "/absent")[0] == 404
    host.wait_for(r"POST /echo 200 \d+ bytes in ")
    host.process.send_signal(signal.SIGTERM)
    assert host.end() == 0
    assert "Stopped." in host.lines
    assert "Traceback" not in host.output


def test_many_connections_at_once(command, flags):
    url = command(*flags).url
    port = int(url.rpartition(":")[2])
    connections = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(1500)]
    try:
        for connection in connections:
            connection.sendall(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi")
        answers = [connection.recv(4096) for connection in connections]
    finally:
        for connection in connections:
            connection.close()
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_answers_finish(command, flags, number):
    host = command(*flags)
    url = host.url
    answers = []
    client = threading.Thread(target=lambda: answers.append(get(url + "/slow?seconds=1")))
    client.start()
    host.wait_for("^slow begins$")
    host.process.send_signal(number)
    host.wait_for("^Stopping")
    with pytest.raises(OSError):
        # The socket closes a moment after the notice.
        while not answers:
            get(url + "/health")
    client.join(timeout=60)
    assert answers == [(200, {"done": True})]
    assert host.end() == 0


def test_the_second_signal_stops_at_once(command, flags):
    host = command(*flags)
    url = host.url
    failures = []

    def call() -> None:
        try:
            get(url + "/slow?seconds=3600")
        except OSError as error:
            failures.append(error)

    client = threading.Thread(target=call)
    client.start()
    host.wait_for("^slow begins$")
    host.process.send_signal(signal.SIGTERM)
    host.wait_for("^Stopping")
    host.process.send_signal(signal.SIGTERM)
    assert host.end() == 0
    client.join(timeout=60)
    assert len(failures) == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /ec",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
        b"GET /flood HTTP/1.0\r\n\r\n",
    ],
    ids=["head", "body", "answer"],
)
def test_a_client_that_stands_still_does_not_keep_the_host_from_stopping(environment, flags, sent):
    """It neither sends the rest of its request nor takes its answer; running answers still finish."""
    impatient = "from golem_host import cli, serve; serve.STALLED_SECONDS = 0.3; cli.entry()"
    with subprocess.Popen(
        [sys.executable, "-c", impatient, *flags],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            url = next(line for line in process.stdout if line.startswith("Ready")).split()[1]
            address = urllib.parse.urlsplit(url)
            with socket.create_connection((address.hostname, address.port), timeout=60) as still:
                still.sendall(sent)
                assert sent.startswith(b"POST") or still.recv(1)
                answers = []
                client = threading.Thread(target=lambda: answers.append(get(url + "/slow?seconds=1")))
                client.start()
                assert any(line == "slow begins\n" for line in process.stdout)
                process.terminate()
                assert process.wait(timeout=60) == 0
                client.join(timeout=60)
                assert answers == [(200, {"done": True})]
                assert process.stdout.read().endswith("Stopped.\n")
                assert "Traceback" not in (errors := process.stderr.read()) and "leaving clients behind" in errors
        finally:
            process.kill()


def test_it_can_be_stopped_when_nobody_reads_what_it_prints(environment, flags):
    words = [sys.executable, "-P", "-m", "golem_host", *flags]
    with subprocess.Popen(
        words,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert any(line.startswith("Ready") for line in process.stdout)
            process.stdout.close()
            process.terminate()
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def test_while_a_model_loads_the_host_says_so_and_can_be_stopped(command, flags, tmp_path):
    (tmp_path / "parrot.bin").write_text("slow")
    host = command(*flags)
    url = host.wait_for(r"listening on (\S+)")[1]
    status, body = get(url + "/health")
    assert (status, body["status"]) == (503, "loading")
    assert get(url + "/echo", b"x")[0] == 503
    host.process.send_signal(signal.SIGTERM)
    assert host.end() == 0
    assert "Ready" not in host.output


def test_a_model_that_fails_to_load_ends_the_command(command, flags, tmp_path):
    (tmp_path / "parrot.bin").write_text("broken")
    host = command(*flags)
    assert host.end() == 1
    assert re.match(r"golem-host: .*polly.*parrot\.bin: is broken on purpose$", host.lines[-1])
    assert "Traceback" not in host.output
    assert "Ready" not in host.output


def test_a_port_that_is_taken_ends_the_command(command, flags):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        host = command(*flags[:-1], address)
        assert host.end() == 1
    assert host.lines == [f"golem-host: cannot listen on {address}: Address already in use; choose another with --addr"]


def test_a_plugin_without_a_model_ends_the_command(command):
    host = command("--enable", "echo", "--addr", "127.0.0.1:0")
    assert host.end() == 2
    assert len(host.lines) == 1
    assert "--echo-model" in host.lines[0]


def test_json_logs_are_json(command, flags):
    host = command(*flags, "--log-format", "json")
    url = host.url
    get(url + "/echo", b"hello")
    host.wait_for('"path": "/echo"')
    host.process.send_signal(signal.SIGTERM)
    assert host.end() == 0
    logged = [json.loads(line) for line in host.lines if line.startswith("{")]
    assert any(record.get("path") == "/echo" and record["status"] == 200 for record in logged)
    assert any(record.get("message") == f"listening on {url}" for record in logged)
