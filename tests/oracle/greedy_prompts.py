"""Candidate prompts for the recorded greedy answers, by kind."""

from __future__ import annotations

CANDIDATES: dict[str, list[str]] = {
    "prose": [
        "The old lighthouse keeper climbed the stairs every evening, because",
        "It was the best of times, it was the worst of times,",
        "Once upon a time there was a little girl who lived in a small house at the edge of the forest. Every day she",
        "To be, or not to be, that is the question:",
        "We hold these truths to be self-evident, that all men are created equal, that they are endowed by their",
    ],
    "facts": [
        "Question: What is the capital of France, and which river flows through it?\nAnswer:",
        "The days of the week are Monday, Tuesday,",
        "The planets of the solar system in order are Mercury, Venus,",
        "The twelve months of the year are January, February, March,",
        "Water boils at 100 degrees Celsius and freezes at",
    ],
    "python": [
        'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n',
        "import os\nimport sys\n\n\ndef main():\n",
        "for i in range(10):\n    print(i)\n\nfor i in range(20):\n",
        "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n",
        "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n    return a - b\n\n\ndef multiply(a, b):\n",
    ],
    "c": [
        "#include <stdio.h>\n\nint main(int argc, char **argv) {\n",
        '#include <stdio.h>\n\nint main(void) {\n    printf("Hello, world!\\n");\n',
        "int max(int a, int b) {\n    if (a > b) {\n        return a;\n    }\n",
        "for (int i = 0; i < n; i++) {\n    for (int j = 0; j < n; j++) {\n        c[i][j] = 0;\n",
    ],
    "markup": [
        '{"name": "Ada Lovelace", "born": 1815, "fields": [',
        "<!DOCTYPE html>\n<html>\n<head>\n<title>Welcome</title>\n",
        "<ul>\n  <li>One</li>\n  <li>Two</li>\n  <li>Three</li>\n",
        '[{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"},',
        "SELECT name, age FROM users WHERE",
    ],
    "french": [
        "Il \u00e9tait une fois, dans un petit village pr\u00e8s de la mer,",
        "Les jours de la semaine sont lundi, mardi,",
        "Libert\u00e9, \u00e9galit\u00e9,",
        "Je m'appelle Marie et j'ai vingt ans. Je",
    ],
    "german": [
        "Der schnelle braune Fuchs springt \u00fcber den faulen Hund. Der schnelle braune Fuchs",
        "Die Tage der Woche hei\u00dfen Montag, Dienstag,",
        "Es war einmal ein K\u00f6nig, der hatte",
    ],
    "russian": [
        "\u041c\u043e\u0441\u043a\u0432\u0430 \u2014 \u0441\u0442\u043e\u043b\u0438\u0446\u0430 \u0420\u043e\u0441\u0441\u0438\u0438. \u0412 \u043d\u0435\u0439",
        "\u043e\u0434\u0438\u043d, \u0434\u0432\u0430, \u0442\u0440\u0438, \u0447\u0435\u0442\u044b\u0440\u0435, \u043f\u044f\u0442\u044c,",
        "\u0414\u0430 \u0434\u0430 \u0434\u0430 \u0434\u0430 \u0434\u0430 \u0434\u0430",
    ],
    "chinese": [
        "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec",
        "\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341",
        "\u661f\u671f\u4e00\u3001\u661f\u671f\u4e8c\u3001\u661f\u671f\u4e09\u3001",
        "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4f60\u597d\uff0c",
    ],
    "digits": [
        "1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144,",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10,",
        "2 + 2 = 4\n3 + 3 = 6\n4 + 4 = 8\n5 + 5 = 10\n",
        "3.14159265358979",
        "2001-01-01\n2001-01-02\n2001-01-03\n2001-01-04\n",
    ],
    "emoji": [
        "My favourite things \U0001f60a: \U0001f431 cats, \u2615 coffee and \U0001f30d",
        "\U0001f600\U0001f603\U0001f604\U0001f600\U0001f603\U0001f604",
        "\U0001f680\U0001f319\u2b50\U0001f680\U0001f319\u2b50\U0001f680",
    ],
    "list": [
        "Shopping list:\n- 2 apples\n- 1 loaf of bread\n-",
        "A is for apple, B is for banana, C is for",
        "1. Red\n2. Green\n3. Blue\n4.",
        "a b c d e f g h i j",
    ],
    "repetition": [
        "All work and no play makes Jack a dull boy.\nAll work and no play makes Jack a dull boy.\n",
        "The cat sat on the mat. The dog sat on the mat. The cat sat on",
        "left right left right left right",
    ],
}

CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
TURNS = "<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n"
QUESTIONS = [
    "Name three primary colours.",
    "What is the capital of Italy?",
    "Count from 1 to 20.",
    "Write a Python function that adds two numbers.",
    "Say hello in Spanish.",
    "List the days of the week.",
]


def candidates(family: str) -> dict[str, list[str]]:
    """All candidates of a family; its chat format wraps the questions."""
    wrap = CHATML if family == "llama" else TURNS
    return CANDIDATES | {"chat": [wrap.format(question) for question in QUESTIONS]}
