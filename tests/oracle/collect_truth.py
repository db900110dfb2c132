"""Record what llama.cpp answers on a real file, for tests that run without it: python collect_truth.py MODEL.gguf FAMILY OUT.json

Per prompt: its ids, 48 greedy tokens (fewer after an end token), the text, and at every step the runner-up and how far its
log probability lies behind (a near tie is where another order of summation may choose differently). For the first prompt
also the 50 likeliest next tokens. Settings: float16 cache, flash attention off, weights as stored (no repacking).
"""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llama_cpp import greedy

PROMPTS = {
    "prose": "The old lighthouse keeper climbed the stairs every evening, because",
    "facts": "Question: What is the capital of France, and which river flows through it?\nAnswer:",
    "python": 'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n',
    "c": "#include <stdio.h>\n\nint main(int argc, char **argv) {\n",
    "json": '{"name": "Ada Lovelace", "born": 1815, "fields": [',
    "french": "Il \u00e9tait une fois, dans un petit village pr\u00e8s de la mer,",
    "russian": "\u041c\u043e\u0441\u043a\u0432\u0430 \u2014 \u0441\u0442\u043e\u043b\u0438\u0446\u0430 \u0420\u043e\u0441\u0441\u0438\u0438. \u0412 \u043d\u0435\u0439",
    "chinese": "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec",
    "digits": "1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144,",
    "emoji": "My favourite things \U0001f60a: \U0001f431 cats, \u2615 coffee and \U0001f30d",
    "list": "Shopping list:\n- 2 apples\n- 1 loaf of bread\n-",
}
CHAT = {
    "llama": {
        "chat": "<|im_start|>user\nName three primary colours.<|im_end|>\n<|im_start|>assistant\n",
        "system": (
            "<|im_start|>system\nYou are a pirate.<|im_end|>\n<|im_start|>user\nWhat is 7 times 6?<|im_end|>\n"
            "<|im_start|>assistant\n"
        ),
    },
    "gemma3": {"chat": "<start_of_turn>user\nName three primary colours.<end_of_turn>\n<start_of_turn>model\n"},
}


def one_line_each(truth: dict[str, Any]) -> str:
    """JSON with every member, and every prompt, on a line of its own."""
    prompts = ",\n".join("  " + json.dumps(prompt, ensure_ascii=False) for prompt in truth["prompts"])
    members = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in truth.items() if name != "prompts"]
    return "{\n" + ",\n".join([*members, f' "prompts": [\n{prompts}\n ]']) + "\n}\n"


def main() -> None:
    model, family, output = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    prompts = PROMPTS | CHAT[family]
    request = {"model": str(model), "prompts": list(prompts.values()), "count": 48, "top": 50}
    answers = greedy(request)["prompts"]
    truth = {
        "file": model.name,
        "sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
        "made_by": f"xllamacpp {version('xllamacpp')}, float16 cache, flash attention off, no repacking, 2 threads",
        "prompts": [
            {
                "name": name,
                "text": text,
                "prompt": answer["prompt"],
                "tokens": answer["tokens"],
                "answer": answer["text"],
                "runners_up": [step[1][0] for step in answer["steps"]],
                "gaps": [round(step[0][1] - step[1][1], 4) for step in answer["steps"]],
            }
            for (name, text), answer in zip(prompts.items(), answers, strict=True)
        ],
        "next_tokens": answers[0]["steps"][0],
    }
    output.write_text(one_line_each(truth))


main()
