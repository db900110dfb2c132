"""Record what llama.cpp answers on a real file, for tests that run without it: python collect_truth.py MODEL.gguf
FAMILY OUT.json

Products with quantized weights round activations to eight bits, so a difference in the last bit of a sum grows to
tenths of a logit within a few layers: llama.cpp parts from itself on most prompts when its batch size, cache type,
attention or weight packing changes. So the prompts kept are those where it does not: 48 greedy tokens (fewer after an
end token) are the same under all of `SETTINGS`. Two of a kind are kept at most.

Per prompt: its ids, tokens, text, and at every step the runner-up and how far its log probability lies behind under the
first setting. `next_tokens`: after the first prompt, the 50 likeliest tokens with their log probability under each
setting,
from which a test takes how far two right answers lie apart.
"""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from greedy_prompts import candidates
from llama_cpp import greedy, log_softmax, open_model

SETTINGS: dict[str, dict[str, Any]] = {
    "float16 cache": {},
    "float32 cache": {"cache": "f32"},
    "one token at a time": {"chunk": 1},
    "four tokens at a time, float32 cache": {"chunk": 4, "cache": "f32"},
    "repacked weights": {"repack": True},
    "flash attention": {"flash": True},
    "flash attention, repacked weights, four tokens at a time": {"flash": True, "repack": True, "chunk": 4},
}
KEPT_OF_A_KIND = 2


def one_line_each(truth: dict[str, Any]) -> str:
    """JSON with every member, and every prompt, on a line of its own."""
    prompts = ",\n".join("  " + json.dumps(prompt, ensure_ascii=False) for prompt in truth["prompts"])
    members = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in truth.items() if name != "prompts"]
    return "{\n" + ",\n".join([*members, f' "prompts": [\n{prompts}\n ]']) + "\n}\n"


def agreed(model: str, family: str) -> list[dict[str, Any]]:
    """The candidates that all settings answer alike."""
    kinds = [(kind, text) for kind, texts in candidates(family).items() for text in texts]
    answers: list[dict[str, Any]] = []
    for setting, members in SETTINGS.items():
        request = {
            "model": model,
            "prompts": [text for _, text in kinds],
            "count": 48,
            "top": 2,
            "threads": 1,
            **members,
        }
        new = greedy(request)["prompts"]
        answers = answers or new
        alike = [mine["tokens"] == its["tokens"] for mine, its in zip(answers, new, strict=True)]
        print(f"{setting}: {sum(alike)} of {len(alike)} left", file=sys.stderr)
        kinds = [kind for kind, same in zip(kinds, alike, strict=True) if same]
        answers = [answer for answer, same in zip(answers, alike, strict=True) if same]
    kept: list[dict[str, Any]] = []
    for (kind, text), answer in zip(kinds, answers, strict=True):
        if sum(each["kind"] == kind for each in kept) == KEPT_OF_A_KIND:
            continue
        kept.append(
            {
                "kind": kind,
                "text": text,
                "prompt": answer["prompt"],
                "tokens": answer["tokens"],
                "answer": answer["text"],
                "runners_up": [step[1][0] for step in answer["steps"]],
                "gaps": [round(step[0][1] - step[1][1], 4) for step in answer["steps"]],
            }
        )
    return kept


def next_tokens(model: str, prompt: list[int]) -> list[list[float]]:
    """[id, log probability under each setting] of the 50 likeliest."""
    scores = []
    for members in SETTINGS.values():
        llama = open_model({"model": model, "threads": 1, **members}, len(prompt))
        scores.append(log_softmax(llama.feed(prompt)[0]))
        llama.close()
    return [[int(token), *(round(float(each[token]), 5) for each in scores)] for token in (-scores[0]).argsort()[:50]]


def main() -> None:
    model, family, output = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    prompts = agreed(str(model), family)
    truth = {
        "file": model.name,
        "sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
        "made_by": f"xllamacpp {version('xllamacpp')}",
        "settings": list(SETTINGS),
        "next_tokens": next_tokens(str(model), prompts[0]["prompt"]),
        "prompts": prompts,
    }
    output.write_text(one_line_each(truth))


main()
