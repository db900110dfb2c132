"""diffusers' side of benchmarks/krea2.py, in the oracles' interpreter: requests in JSON on stdin, seconds on stdout.

krea2_speed.py THREADS < {"root": ComfyUI directory, "what": "step" or "decode", "side": pixels, "bfloat16": bool}
"""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch
from diffusers_krea2 import decoder, dit, velocity
from serving import serve

TOKENS = 20


@cache
def model(root: Path, what: str, bfloat16: bool) -> Any:
    found = dit(root) if what == "step" else decoder(root)
    return found.to(torch.bfloat16) if bfloat16 else found


@torch.no_grad()
def answer(request: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(int(sys.argv[1]))
    what, side = request["what"], request["side"] // 8
    network = model(Path(request["root"]), what, request["bfloat16"])
    dtype = torch.bfloat16 if request["bfloat16"] else torch.float32
    latent = torch.randn(16, side, side, dtype=dtype)
    if what == "decode":
        begun = time.perf_counter()
        network.decode(latent[None, :, None])
        return {"seconds": time.perf_counter() - begun}
    config = network.config
    context = torch.randn(TOKENS, config.num_text_layers, config.text_hidden_dim, dtype=dtype)
    begun = time.perf_counter()
    velocity(network, context, latent, 0.7)
    return {"seconds": time.perf_counter() - begun}


serve(answer)
