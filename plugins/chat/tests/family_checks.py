"""What every family's tests ask: the same questions to this host, llama.cpp and transformers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from family_forward import apart, forward
from golem_host.api import Job, StepwiseLane
from golem_host.devices.cpu import CpuBackend
from golem_host.text.tokenizer import tokenizer_from_gguf
from golem_host.weights.gguf import open_gguf
from golem_host_chat.families import family_of
from golem_host_chat.generation import Completion, Generation
from golem_host_chat.passes import Passes
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.stepper import ChatStepper
from oracle_client import Oracle

DATA = Path(__file__).parent / "data"

LAYER_TOLERANCE = 3e-4
"""Relative to each layer's values, a layer's worth. float32 sums in another order differ by 3e-7; what grows is a
query, key, weight, value or GELU that this difference pushes over a half-precision border (5e-4 of that one value). A
wrong term costs 1e-2 or more."""

FLOAT_TOLERANCE = 5e-4
"""Logits on float32 weights against llama.cpp, which rounds where this host does: for the same reason."""

TEXTS = (
    "Hello world, it was the best of times\n\n  def f(a):\n    return 12 + 2000",
    "<|im_start|>user\n\u4f60\u597d, \u043f\u0440\u0438\u0432\u0435\u0442 caf\u00e9 \U0001f600!<|im_end|>\n",
    "<start_of_turn>model\nthe  the   of <think>and</think><end_of_turn>",
    "",
)


def random_tokens(count: int, seed: int = 1) -> list[int]:
    """Ids of ordinary pieces, which every tiny vocabulary has from 3 on."""
    return np.random.default_rng(seed).integers(3, 256, count).tolist()


def check_layers(path: Path, oracle: Oracle, backend: CpuBackend, tokens: list[int], *, chunk: int = 512) -> None:
    """Attention and stream of each layer, final norm and logits, against transformers on float32 weights."""
    found = forward(path, tokens, backend, chunk=chunk)
    expected = oracle.transformers(path, tokens)
    layers = sum(name.startswith("l_out-") for name in found)
    assert layers == sum(name.startswith("l_out-") for name in expected) > 0
    distances = {name: apart(found[name], expected[name]) for name in found}
    assert distances.keys() == {"result_norm", "logits"} | {
        f"{p}-{i}" for p in ("attn_out", "l_out") for i in range(layers)
    }
    for name, distance in distances.items():
        depth = int(name.rsplit("-")[-1]) if "-" in name else layers - 1
        assert distance < LAYER_TOLERANCE * (depth + 1), f"{name}: {distances}"


def check_float_logits(
    path: Path, oracle: Oracle, backend: CpuBackend, tokens: list[int], tolerance: float = FLOAT_TOLERANCE
) -> None:
    """Logits of every token on float32 weights, against llama.cpp."""
    found = forward(path, tokens, backend)["logits"]
    assert apart(found, oracle.llama("logits", path, tokens=tokens, every=True)["logits"]) < tolerance


def check_quantized_logits(path: Path, oracle: Oracle, backend: CpuBackend, tokens: list[int]) -> None:
    """Logits of every token on quantized weights, against llama.cpp.

    Activations are rounded to eight bits before each product, so the smallest difference is made some thousand times
    larger at every product. How far right answers lie apart is measured, not guessed: llama.cpp's own with a float32
    cache, and token by token.
    """
    expected = oracle.llama("logits", path, tokens=tokens, every=True)["logits"]
    settings: tuple[dict[str, Any], ...] = ({"cache": "f32"}, {"chunk": 1})
    others = [oracle.llama("logits", path, tokens=tokens, every=True, **each)["logits"] for each in settings]
    found = forward(path, tokens, backend)["logits"]
    assert apart(found, expected) < 1.2 * max(apart(other, expected) for other in others)


def check_tokens(path: Path, oracle: Oracle) -> None:
    """Ids of texts with and without special tokens, against llama.cpp."""
    with open_gguf(path) as gguf:
        tokenizer = tokenizer_from_gguf(gguf)
        for special in (True, False):
            expected = oracle.llama("tokenize", path, texts=TEXTS, add_special=special, parse_special=special)["tokens"]
            assert [tokenizer.encode(text, add_special=special, parse_special=special) for text in TEXTS] == expected


def complete(
    path: Path, prompts: list[list[int]], count: int, backend: CpuBackend, *, slots: int = 1
) -> list[Completion]:
    """Greedy answers of the whole engine, `slots` prompts at a time."""
    with open_gguf(path) as gguf:
        tokenizer = tokenizer_from_gguf(gguf)
        passes = Passes(family_of(gguf), backend, slots=slots, context=256, tokens=len(tokenizer.vocab))
        lane = StepwiseLane("test", ChatStepper(passes, tokenizer), kind="chat")
        params = SamplingParams(temperature=0.0)
        jobs = [Job(Generation(prompt=prompt, params=params, max_tokens=count)) for prompt in prompts]
        for job in jobs:
            lane.submit(job)
        while lane.next_time(0.0) is not None:
            lane.run(0.0)
        assert all(job.error is None for job in jobs), [job.error for job in jobs]
        return [job.value for job in jobs]


def check_greedy(path: Path, oracle: Oracle, backend: CpuBackend) -> None:
    """Text and ids of greedy answers on float32 weights, against llama.cpp."""
    prompts = [random_tokens(length, seed=length) for length in (5, 17, 40)]
    expected = oracle.llama("greedy", path, prompts=prompts, count=24)["prompts"]
    for found, answer in zip(complete(path, prompts, 24, backend), expected, strict=True):
        assert found.tokens == answer["tokens"]
        assert found.text == answer["text"]


def truth(name: str, model: Path) -> dict[str, Any]:
    """llama.cpp's recorded answers (tests/oracle/collect_truth.py), which belong to this very file."""
    recorded = json.loads((DATA / name).read_text())
    with model.open("rb") as stream:
        assert hashlib.file_digest(stream, "sha256").hexdigest() == recorded["sha256"], f"{model} is another file"
    return recorded


def check_recorded_greedy(recorded: dict[str, Any], model: Path, backend: CpuBackend) -> None:
    """48 greedy tokens on a real file, of all prompts at once, are llama.cpp's: the recorded prompts are those without
    a near tie."""
    prompts = recorded["prompts"]
    assert len(prompts) >= 10 and min(min(prompt["gaps"]) for prompt in prompts) >= 0.05
    answers = complete(model, [prompt["prompt"] for prompt in prompts], 48, backend, slots=len(prompts))
    parted = {
        prompt["text"]: (answer.text, prompt["answer"])
        for answer, prompt in zip(answers, prompts, strict=True)
        if answer.tokens != prompt["tokens"] or answer.text != prompt["answer"]
    }
    assert not parted


def check_recorded_logits(recorded: dict[str, Any], model: Path, backend: CpuBackend) -> None:
    """Log probabilities of the likeliest tokens after a prompt: as near as llama.cpp's settings are to each other."""
    ids = [row[0] for row in recorded["next_tokens"]]
    settings = np.array([row[1:] for row in recorded["next_tokens"]])
    centre = settings.mean(1)
    spread = np.sqrt(np.mean((settings - centre[:, None]) ** 2, 0)).max()
    logits = forward(model, recorded["prompts"][0]["prompt"], backend)["logits"][-1].astype(np.float64)
    logits -= logits.max()
    found = (logits - np.log(np.exp(logits).sum()))[ids]
    assert np.sqrt(np.mean((found - centre) ** 2)) < 2 * spread


def check_as_exact_as_llama_cpp(recorded: dict[str, Any], model: Path, oracle: Oracle, backend: CpuBackend) -> None:
    """Logits along a recorded answer lie about as far as llama.cpp's from a pass that rounds no activations."""
    tokens = recorded["prompts"][0]["prompt"] + recorded["prompts"][0]["tokens"][:24]
    exact = oracle.transformers(model, tokens)["logits"]
    peer = oracle.llama("logits", model, tokens=tokens, every=True)["logits"]
    assert apart(forward(model, tokens, backend)["logits"], exact) < 1.5 * apart(peer, exact)


def check_recorded_tokens(recorded: dict[str, Any], model: Path) -> None:
    """Ids of the recorded prompts."""
    with open_gguf(model) as gguf:
        tokenizer = tokenizer_from_gguf(gguf)
        for prompt in recorded["prompts"]:
            assert tokenizer.encode(prompt["text"]) == prompt["prompt"]
