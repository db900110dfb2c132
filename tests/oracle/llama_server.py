"""llama.cpp's HTTP server in a process of its own, until stdin ends: python llama_server.py '{"model": "FILE.gguf",
...}'

Run by the oracle interpreter. Members: `model`, `slots` (1), `context` of all slots together (4096), `threads` (1),
`flash` (null: as llama.cpp decides), `repack` (true), `embeddings` (0: none; else tokens of a batch). The address it
answers at is the only line on stdout. What it serves: /completion, /v1/chat/completions, /apply-template, /tokenize,
/v1/embeddings and the rest of llama-server's routes.
"""

from __future__ import annotations

import json
import os
import sys

import xllamacpp


def main() -> None:
    request = json.loads(sys.argv[1])
    answer_to = os.dup(1)
    os.dup2(2, 1)  # whatever the library prints is not the answer
    params = xllamacpp.CommonParams()
    params.model.path = request["model"]
    params.n_parallel = request.get("slots", 1)
    params.n_ctx = request.get("context", 4096)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = request.get("threads", 1)
    params.no_extra_bufts = not request.get("repack", True)
    params.fit_params = False
    params.cache_ram_mib = 0  # as this host's in benchmarks
    params.verbosity = 0
    if request.get("embeddings"):
        params.embedding = True
        params.n_batch = params.n_ubatch = request["embeddings"]
    if request.get("flash") is not None:
        kinds = xllamacpp.llama_flash_attn_type
        params.flash_attn_type = (
            kinds.LLAMA_FLASH_ATTN_TYPE_ENABLED if request["flash"] else kinds.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
    server = xllamacpp.Server(params)
    os.write(answer_to, (server.listening_address + "\n").encode())
    sys.stdin.read()


main()
