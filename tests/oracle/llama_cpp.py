"""llama.cpp as an oracle: answers JSON requests (serving.py), arrays in the npz file `output`.

Run by the oracle interpreter (xllamacpp, numpy). Common members: `model` (path), `command`, and optionally `context`,
`threads` (1), `cache` ("f16", "f32" or "q8_0", which wants `flash`), `turn` (true: a q8_0 cache holds heads of whole
64s turned by a Hadamard matrix), `chunk` (tokens of one physical batch), `repack` and `flash` (false: weights as
stored, flash attention off).

tokenize  texts, add_special, parse_special, vocab_only (false: the file has weights too)
          -> {"tokens": [[id]], "pieces": [[hex bytes]]}
logits    tokens, every (false)                            -> npz `logits` float32 (1 or tokens, vocabulary)
layers    tokens, watch (names without layer)              -> npz `<name>-<layer>` (tokens, features) and `logits`
embed     texts: [[id]], width (optional)                  -> npz `vectors` float32 (texts, width), pooled
greedy    prompts: [text or ids], count, top (10), add_special, parse_special, stop_at_end (true)
          -> {"prompts": [{"prompt": [id], "tokens": [id], "text": str, "steps": [[[id, logprob], ...top]]}]}
speed     tokens, count, repeats                           -> {"prompt_rate", "draw_rate"}: medians, tokens per second
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

import numpy as np
from llama_binding import F16, F32, Q8_0, Llama
from serving import serve


def open_model(request: dict[str, Any], tokens: int, watch: tuple[str, ...] = (), texts: int = 0) -> Llama:
    os.environ["LLAMA_ATTN_ROT_DISABLE"] = str(int(not request.get("turn", True)))  # read when a context is made
    return Llama(
        request["model"],
        context=request.get("context", tokens),
        threads=request.get("threads", 1),
        cache_type={"f16": F16, "f32": F32, "q8_0": Q8_0}[request.get("cache", "f16")],
        chunk=request.get("chunk", 512),
        repack=request.get("repack", False),
        flash=request.get("flash", False),
        watch=watch,
        vocab_only=request.get("vocab_only", False),
        sequences=max(1, texts),
        embeddings=texts > 0,
    )


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """float64 of a float32 row."""
    logits = logits.astype(np.float64)
    logits -= logits.max()
    return logits - np.log(np.exp(logits).sum())


def tokenize(request: dict[str, Any]) -> dict[str, Any]:
    flags = request.get("add_special", True), request.get("parse_special", True)
    with open_model(request, 256) as llama:
        tokens = [llama.tokenize(text, *flags) for text in request["texts"]]
        return {"tokens": tokens, "pieces": [[llama.piece(token).hex() for token in ids] for ids in tokens]}


def logits(request: dict[str, Any]) -> dict[str, Any]:
    with open_model(request, len(request["tokens"])) as llama:
        np.savez(request["output"], logits=llama.feed(request["tokens"], request.get("every", False)))
    return {}


def layers(request: dict[str, Any]) -> dict[str, Any]:
    tokens = request["tokens"]
    with open_model(request | {"chunk": len(tokens)}, len(tokens), tuple(request["watch"])) as llama:
        np.savez(request["output"], logits=llama.feed(tokens, every=True), **llama.seen)
    return {}


def embed(request: dict[str, Any]) -> dict[str, Any]:
    texts = request["texts"]
    tokens = -(-sum(map(len, texts)) // len(texts)) * len(texts)  # another number of tokens fails an assertion
    with open_model(request | {"chunk": tokens}, tokens, texts=len(texts)) as llama:
        np.savez(request["output"], vectors=llama.embed(texts, request.get("width")))
    return {}


def greedy(request: dict[str, Any]) -> dict[str, Any]:
    with open_model(request, 512) as llama:
        return {"prompts": [continued(llama, prompt, request) for prompt in request["prompts"]]}


def continued(llama: Llama, prompt: str | list[int], request: dict[str, Any]) -> dict[str, Any]:
    """One greedy answer."""
    llama.forget()
    if isinstance(prompt, str):
        prompt = llama.tokenize(prompt, request.get("add_special", True), request.get("parse_special", True))
    row = llama.feed(prompt)[0]
    tokens: list[int] = []
    steps: list[list[list[float]]] = []
    while True:
        scores = log_softmax(row)
        best = np.argpartition(-scores, request.get("top", 10))[: request.get("top", 10)]
        best = best[np.lexsort((best, -scores[best]))]
        steps.append([[int(token), round(float(scores[token]), 5)] for token in best])
        tokens.append(int(best[0]))
        if len(tokens) == request["count"] or (request.get("stop_at_end", True) and llama.ends(tokens[-1])):
            break
        row = llama.feed(tokens[-1:])[0]
    text = b"".join(llama.piece(token) for token in tokens).decode("utf-8", "replace")
    return {"prompt": list(prompt), "tokens": tokens, "text": text, "steps": steps}


def speed(request: dict[str, Any]) -> dict[str, Any]:
    tokens, count = request["tokens"], request["count"]
    prompt_rates, draw_rates = [], []
    with open_model(request, len(tokens) + count) as llama:
        for _ in range(request["repeats"]):
            llama.forget()
            started = time.perf_counter()
            row = llama.feed(tokens)[0]
            prompt_rates.append(len(tokens) / (time.perf_counter() - started))
            started = time.perf_counter()
            for _ in range(count):
                row = llama.feed([int(row.argmax())])[0]
            draw_rates.append(count / (time.perf_counter() - started))
    return {"prompt_rate": statistics.median(prompt_rates), "draw_rate": statistics.median(draw_rates)}


COMMANDS = {"tokenize": tokenize, "logits": logits, "layers": layers, "embed": embed, "greedy": greedy}
COMMANDS |= {"speed": speed}


if __name__ == "__main__":
    serve(lambda request: COMMANDS[request["command"]](request))
