"""laya's own HTTP server over one checkpoint, on a socket, until stdin ends.

The only argument is a JSON object: `model` (directory), `threads`. The first line of stdout is the server's address.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading

import torch
import uvicorn
from laya.serve import create_app
from laya_server import OneCheckpoint


def main() -> None:
    request = json.loads(sys.argv[1])
    answer_to = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints is not the answer
    torch.set_num_threads(request["threads"])
    app = create_app(router=OneCheckpoint(request["model"]))
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    os.write(answer_to, f"http://127.0.0.1:{listener.getsockname()[1]}\n".encode())
    sys.stdin.read()


main()
