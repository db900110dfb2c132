"""How long ik_llama.cpp reads a prompt: python ik_llama.py '{"model": "FILE.gguf", "threads": 2, "context": 1024}'

Run by an interpreter of its own that has `ik-llama-cpp-python` (GOLEM_IK_PYTHON): its library and xllamacpp's have the
same symbols. Requests on stdin, one a line: {"tokens": [...]}; each answer is {"seconds": ...}, from an empty cache to
the logits of the last token. Settings: flash attention on, weights repacked at load, and chunks of 512; of flash
attention, repacking and both or none of them this was the fastest on SmolLM2-135M Q4_1, Gemma 3 270M Q4_K_M and a
Qwen3-0.6B Q4_K_M. The package's own default leaves flash attention off where the CPU lacks AVX-VNNI, although its
kernels run there.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from ik_llama_cpp import _ctypes_api as api
from ik_llama_cpp._internals import make_batch_range
from serving import serve

CHUNK = 512


class Reader:
    """A loaded model and an empty cache."""

    def __init__(self, model: str, threads: int, context: int) -> None:
        params = api.llama_model_default_params()
        # Repacked weights cannot lie in the mapped file.
        params.repack_tensors, params.use_mmap = True, False
        self.model = api.llama_model_load_from_file(model.encode(), params)
        if not self.model:
            raise RuntimeError(f"cannot load {model}")
        sizes = api.llama_context_default_params()
        sizes.n_ctx = sizes.n_batch = context
        sizes.n_ubatch = CHUNK
        sizes.n_threads = sizes.n_threads_batch = threads
        sizes.flash_attn = True
        self.context = api.llama_init_from_model(self.model, sizes)
        if not self.context:
            raise RuntimeError("cannot make a context")

    def read(self, tokens: list[int]) -> float:
        """Seconds."""
        api.llama_kv_cache_clear(self.context)
        batch = make_batch_range(tokens, pos_start=0)
        started = time.perf_counter()
        code = api.llama_decode(self.context, batch)
        api.llama_get_logits_ith(self.context, -1)
        seconds = time.perf_counter() - started
        api.llama_batch_free(batch)
        if code:
            raise RuntimeError(f"llama_decode: {code}")
        return seconds


def main() -> None:
    request = json.loads(sys.argv[1])
    readers: list[Reader] = []

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        if not readers:
            readers.append(Reader(request["model"], request["threads"], request["context"]))
        return {"seconds": readers[0].read(asked["tokens"])}

    serve(answer)


main()
