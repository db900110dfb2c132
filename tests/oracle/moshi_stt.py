"""moshi's speech to text as an oracle: answers JSON requests (serving.py), arrays in the npz file `output`.

Run by the oracle interpreter (moshi, torch). Members: `model` (a checkpoint directory), `pcm` (base64 of float32
samples at 24 kHz: whole frames of 1920, padding included), `threads` (1), `dtype` of the language model (float32 if
left out). The codec streams frame by frame; the language model hears the beginning, then every frame, as in
`moshi.run_inference`.

-> npz `codes` (frames, levels), `tokens` (frames + 1,) with that of the beginning, `pauses` (frames + 1, heads) where
there are heads; member `text`: the pieces of the tokens, `seconds`: what codec and language model took,
without the first frame.
"""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ["NO_TORCH_COMPILE"] = "1"

import numpy as np
import torch
from moshi.models import LMGen, loaders
from safetensors.torch import load_file
from serving import serve

FRAME = 1920
_LOADED: dict[str, Any] = {}


def load(folder: Path, dtype: torch.dtype) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Codec, language model, tokenizer and configuration. The codec's file need not have its decoder."""
    key = f"{folder} {dtype}"
    if key not in _LOADED:
        config = json.loads((folder / "config.json").read_text())
        sizes = json.loads((folder / config["mimi_config_name"]).read_text()) if "mimi_config_name" in config else None
        mimi = loaders.get_mimi(None, sizes, num_codebooks=config["n_q"])
        loaded = mimi.load_state_dict(load_file(folder / config["mimi_name"]), strict=False)
        assert not loaded.unexpected_keys, loaded
        kept = ("encoder.", "encoder_transformer.", "downsample.", "quantizer.")
        assert not [key for key in loaded.missing_keys if key.startswith(kept)], loaded
        info = loaders.CheckpointInfo(
            folder / config["moshi_name"],
            folder / config["mimi_name"],
            folder / config["tokenizer_name"],
            {name: value for name, value in config.items() if name not in OTHERS},
        )
        _LOADED[key] = mimi, info.get_moshi("cpu", dtype=dtype), info.get_text_tokenizer(), config
    return _LOADED[key]


OTHERS = (
    "moshi_name", "mimi_name", "mimi_config_name", "tokenizer_name", "lora_name", "model_type", "lm_gen_config",
    "tts_config", "stt_config", "model_id",
)  # fmt: skip


def answer(request: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(request.get("threads", 1))
    mimi, lm, tokenizer, config = load(Path(request["model"]), getattr(torch, request.get("dtype", "float32")))
    pcm = np.frombuffer(base64.b64decode(request["pcm"]), np.float32).reshape(-1, FRAME)
    generate = LMGen(lm, use_sampling=False, **config.get("lm_gen_config", {}))
    codes, tokens, pauses = [], [], []
    spent = 0.0
    with torch.no_grad(), mimi.streaming(1), generate.streaming(1):
        for at, frame in enumerate(pcm):
            started = time.perf_counter()
            found = mimi.encode(torch.from_numpy(frame.copy())[None, None])
            for _ in range(2 if at == 0 else 1):
                token, heads = generate.step_with_extra_heads(found)
                tokens.append(int(token[0, 0, 0]))
                pauses.append([float(head[0, 0, 0]) for head in heads])
            spent += time.perf_counter() - started if at else 0
            codes.append(found[0, :, 0].numpy())
    np.savez(request["output"], codes=np.stack(codes), tokens=np.array(tokens), pauses=np.array(pauses, np.float32))
    text = "".join(tokenizer.id_to_piece(each).replace("▁", " ") for each in tokens[1:] if each not in (0, 3))
    return {"text": text, "seconds": spent}


if __name__ == "__main__":
    serve(answer)
