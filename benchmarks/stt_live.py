"""A live stream beside conversations and pictures that are drawn without end: python benchmarks/stt_live.py CHAT.gguf

Serves the chat model, a tiny speech-to-text checkpoint and a tiny Krea 2 on one device. Tells how far apart the tokens
of one client come, without and with pictures; then sends a frame of 80 ms every 80 ms for a minute, and tells how long
each took from being sent whole to being told of: the deadline is the next frame, 80 ms. What else the machine does
counts too: the share of time that the host's threads were ready to run and had no core is told beside.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import websockets

from golem_host.testing.tiny_krea2 import tiny_krea2_directory
from golem_host.testing.tiny_stt import tiny_stt_directory

FRAME_SECONDS = 0.08


def intervals(url: str, seconds: float) -> list[float]:
    """Seconds between the tokens of streamed answers of a client."""
    found: list[float] = []
    until = time.perf_counter() + seconds
    body = {"model": "talker", "messages": [{"role": "user", "content": "x"}], "max_tokens": 200, "ignore_eos": True}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps({**body, "stream": True}).encode(),
        {"Content-Type": "application/json"},
    )
    while time.perf_counter() < until:
        with urllib.request.urlopen(request) as answer:
            came = [time.perf_counter() for line in answer if line.startswith(b"data: {")]
        found += [after - before for before, after in pairwise(came[1:])]  # the first tells who speaks
    return found


def talk_beside_pictures(url: str, seconds: float) -> str:
    """A client's tokens without and with a picture that is drawn."""
    alone = intervals(url, seconds)
    stop = threading.Event()
    painting = threading.Thread(target=paint, args=(url, stop))
    painting.start()
    beside = intervals(url, seconds)
    stop.set()
    painting.join()
    means, tails = (
        [1e3 * measure(each) for each in (alone, beside)]
        for measure in (statistics.mean, lambda each: statistics.quantiles(each, n=100)[-1])
    )
    return (
        f"tokens every {means[0]:.1f} ms, beside pictures every {means[1]:.1f} ms ({means[1] / means[0]:.2f} times); "
        f"99th of 100 after {tails[0]:.1f} and {tails[1]:.1f} ms"
    )


def converse(url: str, stop: threading.Event) -> None:
    """Draw answers of 200 tokens to long prompts, one after the other."""
    answers = 0
    while not stop.is_set():
        words = " ".join(f"{answers} and {at}" for at in range(100))
        messages = [{"role": "user", "content": words}]
        _post(f"{url}/v1/chat/completions", model="talker", messages=messages, max_tokens=200, ignore_eos=True)
        answers += 1


def paint(url: str, stop: threading.Event) -> None:
    """Draw pictures, one after the other."""
    while not stop.is_set():
        _post(f"{url}/v1/images/generations", model="painter", prompt="a fox", size="256x256", steps=4)


def _post(url: str, **body: Any) -> None:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request).read()


def waited(process: int) -> float:
    """Seconds that the threads of a process were ready to run and had no core (Linux)."""
    tasks = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[1]) for task in tasks) / 1e9


async def listen(url: str, frames: int) -> list[float]:
    """Seconds that each frame took."""
    took: list[float] = []
    sent: list[float] = []
    async with websockets.connect(url.replace("http", "ws") + "/api/asr-streaming", proxy=None) as stream:
        begun = msgspec.msgpack.decode(await stream.recv(decode=False))
        if begun["type"] != "Ready":
            raise SystemExit(f"the stream was refused: {begun['message']}")
        message = msgspec.msgpack.encode({"type": "Audio", "pcm": [0.1, -0.1] * 960})

        async def read() -> None:
            while len(took) < frames:
                heard = msgspec.msgpack.decode(await stream.recv(decode=False))
                if heard["type"] == "Step" and heard["step_idx"] > 1:  # the first is that of the beginning
                    took.append(time.perf_counter() - sent[len(took)])

        reading = asyncio.create_task(read())
        started = time.perf_counter()
        for at in range(frames):
            await asyncio.sleep(max(0.0, started + at * FRAME_SECONDS - time.perf_counter()))
            sent.append(time.perf_counter())
            await stream.send(message)
        await reading
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chat", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        words = ["--enable", "chat,stt,krea2", "--addr", "127.0.0.1:0", "--log-level", "error"]
        words += ["--chat-model", f"talker={given.chat}"]
        words += ["--stt-model", str(tiny_stt_directory(Path(folder) / "tiny"))]
        words += ["--krea2-model", f"painter={tiny_krea2_directory(Path(folder) / 'comfy')}"]
        command = [sys.executable, "-P", "-m", "golem_host", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
            assert host.stdout is not None
            url = next(line.split()[1] for line in host.stdout if line.startswith("Ready:"))
            talked = talk_beside_pictures(url, given.seconds / 6)
            stop = threading.Event()
            others = [threading.Thread(target=each, args=(url, stop)) for each in (converse, converse, paint)]
            for other in others:
                other.start()
            try:
                before = waited(host.pid)
                took = asyncio.run(listen(url, round(given.seconds / FRAME_SECONDS)))
                coreless = (waited(host.pid) - before) / (len(took) * FRAME_SECONDS)
            finally:
                stop.set()
                for other in others:
                    other.join()
                host.terminate()
    print(talked)
    late = sum(each > FRAME_SECONDS for each in took)
    print(
        f"{len(took)} frames: median {statistics.median(took) * 1e3:.1f} ms, 99th of 100 "
        f"{statistics.quantiles(took, n=100)[-1] * 1e3:.1f} ms, longest {max(took) * 1e3:.1f} ms; {late} over 80 ms; "
        f"without a core for {100 * coreless:.0f} % of the time"
    )


if __name__ == "__main__":
    main()
