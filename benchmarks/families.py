"""Every chat family beside llama.cpp's server: python benchmarks/families.py

Drawing and reading a prompt, on files of published shapes with random weights (benchmarks/shapes.py); of large
checkpoints some layers only, which are as fast each as all of them. As benchmarks/chat.py otherwise; families whose
rows are there (qwen3, and the real SmolLM2 and Gemma 3) are not measured twice.
"""

from __future__ import annotations

import chat
from rows import bus_row, chat_rows

DENSE = (1.2, 1.5)
"""The ratios wanted of drawing and of prompts ..."""
OTHERS = (1.0, 1.0)
"""... and of mixtures and hybrids."""
BUS = 0.75
"""The share of a plain read at which weights are to be read while drawing, as of qwen3-4b in benchmarks/chat.py."""

FILES = {
    "llama-3.2-1b": DENSE,
    "mixtral-8x7b-2": OTHERS,
    "ministral-3-3b-8": DENSE,
    "smollm3-3b-10": DENSE,
    "qwen2.5-1.5b": DENSE,
    "qwen3-30b-a3b-8": OTHERS,
    "bonsai-1.7b-q1_0": OTHERS,
    "bonsai-1.7b-q2_0": OTHERS,
    "gemma2-2b-12": DENSE,
    "gemma3-4b-12": DENSE,
    "gemma4-e2b": OTHERS,
    "gemma4-12b-6": DENSE,
    "gemma4-26b-a4b-6": OTHERS,
    "qwen3.5-0.8b": OTHERS,
    "qwen3.5-4b-8": OTHERS,
    "qwen3.5-35b-a3b-4": OTHERS,
}

ROWS = [
    *(row for file, (draw, prompt) in FILES.items() for row in chat_rows(file, draw, prompt)),
    *(bus_row(file, "ordinary", BUS) for file, wanted in FILES.items() if wanted == DENSE),
]

if __name__ == "__main__":
    chat.main(__doc__, ROWS)
