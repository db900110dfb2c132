"""sentence-transformers in a process of its own: python sentence_transformer.py '{"model": FOLDER, "threads": 2}'

Run by an interpreter that has it. Each line on stdin is a JSON array of texts; the answer is {"seconds": how long
`encode` took with its defaults, in float32}.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from sentence_transformers import SentenceTransformer


def main() -> None:
    request = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    torch.set_num_threads(request["threads"])
    model = SentenceTransformer(request["model"], device="cpu", model_kwargs={"torch_dtype": torch.float32})
    for line in sys.stdin:
        texts = json.loads(line)
        started = time.perf_counter()
        model.encode(texts, show_progress_bar=False)
        print(json.dumps({"seconds": time.perf_counter() - started}), file=answers, flush=True)


main()
