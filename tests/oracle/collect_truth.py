"""Record what llama.cpp answers on a real file, for tests that run without it.

python collect_truth.py MODEL.gguf FAMILY OUT.json

Products with quantized weights round activations to eight bits, so a difference in the last bit of a sum grows to
tenths of a logit within a few layers: llama.cpp parts from itself on most prompts when its batch size, cache type or
attention changes. Only where it does not is there one right answer. So a prompt is kept when its 48 greedy tokens
(fewer after an end token) are the same under all of `SETTINGS` and the two likeliest tokens never come within
`NEAR_TIE` of each other; of each kind the two whose answers are least in doubt.

Per prompt: its ids, tokens, text, and at every step the least distance, over the settings, of the second log
probability from the first. `next_tokens`: after the first prompt, the 50 likeliest tokens with their log probability
under each setting, from which a test takes how far right answers lie apart.
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
    "flash attention": {"flash": True},
}
NEAR_TIE = 0.05
OF_A_KIND = 2


def one_line_each(truth: dict[str, Any]) -> str:
    """JSON with every member, and every prompt, on a line of its own."""
    prompts = ",\n".join("  " + json.dumps(prompt, ensure_ascii=False) for prompt in truth["prompts"])
    members = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in truth.items() if name != "prompts"]
    return "{\n" + ",\n".join([*members, f' "prompts": [\n{prompts}\n ]']) + "\n}\n"


def agreed(model: str, family: str) -> list[dict[str, Any]]:
    """The candidates that all settings answer alike and without a near tie, few of a kind."""
    left = [{"kind": kind, "text": text} for kind, texts in candidates(family).items() for text in texts]
    for setting, members in SETTINGS.items():
        request = {"model": model, "prompts": [each["text"] for each in left], "count": 48, "top": 2, **members}
        for each, answer in zip(left, greedy(request | {"threads": 1})["prompts"], strict=True):
            gaps = [round(first[1] - second[1], 4) for first, second in answer["steps"]]
            each.setdefault("prompt", answer["prompt"])
            each.setdefault("tokens", answer["tokens"])
            each.setdefault("answer", answer["text"])
            each["alike"] = each["tokens"] == answer["tokens"]
            each["gaps"] = [min(pair) for pair in zip(each.get("gaps", gaps), gaps, strict=False)]
        left = [each for each in left if each.pop("alike") and min(each["gaps"]) >= NEAR_TIE]
        print(f"{setting}: {len(left)} left", file=sys.stderr)

    def rank(each: dict[str, Any]) -> int:
        """How many of its kind are surer."""
        return sum(min(other["gaps"]) > min(each["gaps"]) for other in left if other["kind"] == each["kind"])

    return [each for each in left if rank(each) < OF_A_KIND]


def next_tokens(model: str, prompt: list[int]) -> list[list[float]]:
    """[id, log probability under each setting] of the 50 likeliest."""
    scores = []
    for members in SETTINGS.values():
        with open_model({"model": model, "threads": 1, **members}, len(prompt)) as llama:
            scores.append(log_softmax(llama.feed(prompt)[0]))
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
