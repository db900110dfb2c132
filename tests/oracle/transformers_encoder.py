"""BERT encoders of transformers as an oracle: answers JSON requests (serving.py), arrays in the npz file `output`.

Run by the oracle interpreter (transformers, torch). Members: `model` (path of `model.safetensors`, its configuration
beside it), `texts` and `segments` ([[id]]). Each text is computed alone, in float32.

-> npz `out`: of a BertModel the mean of the last layer's rows (texts, width), of a cross-encoder the logits (texts, 1)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from serving import serve


def answer(request: dict[str, Any]) -> dict[str, Any]:
    folder = Path(request["model"]).parent
    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    rows = []
    with torch.no_grad():
        for ids, segments in zip(request["texts"], request["segments"], strict=True):
            out = model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([segments]))
            rows.append((out.logits if "logits" in out else out.last_hidden_state.mean(1))[0].numpy())
    np.savez(request["output"], out=np.stack(rows))
    return {}


if __name__ == "__main__":
    serve(answer)
