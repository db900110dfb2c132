"""A live stream beside a conversation that draws without end: python benchmarks/stt_live.py CHAT.gguf

Serves the chat model and a tiny speech-to-text checkpoint on one device, sends a frame of 80 ms every 80 ms for a
minute, and tells how long each took from being sent whole to being told of: the deadline is the next frame, 80 ms.
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
from pathlib import Path

import msgspec
import websockets

from golem_host.testing.tiny_stt import tiny_stt_directory

FRAME_SECONDS = 0.08


def converse(url: str, stop: threading.Event) -> int:
    """Draw answers of 200 tokens to long prompts, one after the other; how many."""
    answers = 0
    while not stop.is_set():
        words = " ".join(f"{answers} and {at}" for at in range(100))
        body = {"messages": [{"role": "user", "content": words}], "max_tokens": 200, "ignore_eos": True}
        request = urllib.request.Request(
            f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request).read()
        answers += 1
    return answers


async def listen(url: str, frames: int) -> list[float]:
    """Seconds that each frame took."""
    took: list[float] = []
    sent: list[float] = []
    async with websockets.connect(url.replace("http", "ws") + "/api/asr-streaming", proxy=None) as stream:
        await stream.recv()
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
        words = [
            "--enable",
            "chat,stt",
            "--addr",
            "127.0.0.1:0",
            "--chat-model",
            str(given.chat),
            "--log-level",
            "error",
        ]
        words += ["--stt-model", str(tiny_stt_directory(Path(folder) / "tiny"))]
        with subprocess.Popen([sys.executable, "-m", "golem_host", *words], stdout=subprocess.PIPE, text=True) as host:
            assert host.stdout is not None
            url = next(line.split()[1] for line in host.stdout if line.startswith("Ready:"))
            stop = threading.Event()
            talkers = [threading.Thread(target=converse, args=(url, stop)) for _ in range(2)]
            for talker in talkers:
                talker.start()
            took = asyncio.run(listen(url, round(given.seconds / FRAME_SECONDS)))
            stop.set()
            for talker in talkers:
                talker.join()
            host.terminate()
    late = sum(each > FRAME_SECONDS for each in took)
    print(
        f"{len(took)} frames: median {statistics.median(took) * 1e3:.1f} ms, 99th of 100 "
        f"{statistics.quantiles(took, n=100)[-1] * 1e3:.1f} ms, longest {max(took) * 1e3:.1f} ms; {late} over 80 ms"
    )


if __name__ == "__main__":
    main()
