"""Candidate prompts for the recorded greedy answers, by kind."""

from __future__ import annotations

CANDIDATES: dict[str, list[str]] = {
    "prose": [
        "The old lighthouse keeper climbed the stairs every evening, because",
        "It was the best of times, it was the worst of times,",
        "Once upon a time there was a little girl who lived in a small house at the edge of the forest. Every day she",
        "To be, or not to be, that is the question:",
        "We hold these truths to be self-evident, that all men are created equal, that they are endowed by their",
        "I think that I think that I think that I think that I think that",
    ],
    "facts": [
        "Question: What is the capital of France, and which river flows through it?\nAnswer:",
        "The days of the week are Monday, Tuesday,",
        "The planets of the solar system in order are Mercury, Venus,",
        "The twelve months of the year are January, February, March,",
        "Water boils at 100 degrees Celsius and freezes at",
        "one, two, three, four, five, six, seven, eight,",
        "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, Monday, Tuesday,",
    ],
    "python": [
        'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n',
        "import os\nimport sys\n\n\ndef main():\n",
        "for i in range(10):\n    print(i)\n\nfor i in range(20):\n",
        "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n",
        "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n    return a - b\n\n\ndef multiply(a, b):\n",
        "assert f(1) == 1\nassert f(2) == 2\nassert f(3) == 3\nassert f(4) == 4\n",
    ],
    "c": [
        "#include <stdio.h>\n\nint main(int argc, char **argv) {\n",
        '#include <stdio.h>\n\nint main(void) {\n    printf("Hello, world!\\n");\n',
        "int max(int a, int b) {\n    if (a > b) {\n        return a;\n    }\n",
        "for (int i = 0; i < n; i++) {\n    for (int j = 0; j < n; j++) {\n        c[i][j] = 0;\n",
        "case 1: return 1;\ncase 2: return 2;\ncase 3: return 3;\ncase 4: return 4;\n",
        "int a1 = 1;\nint a2 = 2;\nint a3 = 3;\nint a4 = 4;\n",
    ],
    "markup": [
        '{"name": "Ada Lovelace", "born": 1815, "fields": [',
        "<!DOCTYPE html>\n<html>\n<head>\n<title>Welcome</title>\n",
        "<ul>\n  <li>One</li>\n  <li>Two</li>\n  <li>Three</li>\n",
        '[{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"},',
        "SELECT name, age FROM users WHERE",
    ],
    "french": [
        "Il était une fois, dans un petit village près de la mer,",
        "Les jours de la semaine sont lundi, mardi,",
        "Liberté, égalité,",
        "Je m'appelle Marie et j'ai vingt ans. Je",
        "Bonjour le monde. Bonjour le monde. Bonjour le monde. Bonjour",
        "un, deux, trois, quatre, cinq, six, sept, huit, neuf, dix, un, deux, trois,",
    ],
    "german": [
        "Der schnelle braune Fuchs springt über den faulen Hund. Der schnelle braune Fuchs",
        "Die Tage der Woche heißen Montag, Dienstag,",
        "Es war einmal ein König, der hatte",
        "eins, zwei, drei, vier, fünf, eins, zwei, drei, vier, fünf, eins, zwei,",
    ],
    "russian": [
        "Москва — столица России. В ней",
        "один, два, три, четыре, пять,",
        "Да да да да да да",
        "Привет, мир! Привет, мир! Привет, мир! Привет,",
    ],
    "chinese": [
        "今天天气很好，我们",
        "一二三四五六七八九十",
        "星期一、星期二、星期三、",
        "你好，世界！你好，世界！你好，",
    ],
    "digits": [
        "1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144,",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10,",
        "2 + 2 = 4\n3 + 3 = 6\n4 + 4 = 8\n5 + 5 = 10\n",
        "3.14159265358979",
        "2001-01-01\n2001-01-02\n2001-01-03\n2001-01-04\n",
    ],
    "emoji": [
        "My favourite things 😊: 🐱 cats, ☕ coffee and 🌍",
        "😀😃😄😀😃😄",
        "🚀🌙⭐🚀🌙⭐🚀",
    ],
    "list": [
        "Shopping list:\n- 2 apples\n- 1 loaf of bread\n-",
        "A is for apple, B is for banana, C is for",
        "1. Red\n2. Green\n3. Blue\n4.",
        "a b c d e f g h i j",
        "Step 1: Start.\nStep 2: Start.\nStep 3: Start.\nStep 4:",
        "- a\n- b\n- c\n- a\n- b\n- c\n- a\n- b\n- c\n",
    ],
    "repetition": [
        "All work and no play makes Jack a dull boy.\nAll work and no play makes Jack a dull boy.\n",
        "The cat sat on the mat. The dog sat on the mat. The cat sat on",
        "left right left right left right",
        "ha ha ha ha ha ha ha ha ha",
        "A B A B A B A B A B A B",
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
