"""How an oracle script talks to the tests: requests in JSON, one a line on stdin, and an answer to each on stdout."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer until stdin ends; what `answer` raises is told as {"error": traceback}."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)  # whatever a library prints is not an answer
        for line in sys.stdin:
            try:
                reply = answer(json.loads(line))
            except Exception:
                reply = {"error": traceback.format_exc()}
            replies.write(json.dumps(reply) + "\n")
            replies.flush()
