"""The `serve` of the command line with a scripted chat model. Run as a script: a model file, then `setting=value`."""

from __future__ import annotations

import sys
from pathlib import Path

from golem_host.config import CORE, resolve
from golem_host.errors import RequestError
from golem_host.serve import serve
from golem_host.testing.fakes import FakePlugin, plugin_set
from golem_host_chat.routes import ROUTES
from scripted_chat import Script, ScriptedModel

CALLING = (
    'winter\n</think>\n\nI look.\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
)
CALLS = "".join(
    f'<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{city}"}}}}\n</tool_call>'
    for city in ("Oslo", "Köln")
)
SCRIPTS = {
    "emoji": Script(tuple(bytes([byte]) for byte in "a\U0001f600\u2028b".encode())),
    "sunny there": Script((b"Sun", b"ny.")),
    "forecast": Script(tuple(bytes([byte]) for byte in f"I look.\n{CALLS}".encode())),
    "ponder": Script((b"four", b"?\n</think>", b"\n\nFour.")),
    "endless": Script((b"more ",), endless=True),
    "calling": Script(tuple(character.encode() for character in CALLING)),
    "person": Script((b'{"name": "Ada", ', b'"age": 36}')),
    "failing": Script((b"a", b"b"), error=RequestError("broken")),
}


def main() -> int:
    flags = {name: [value] for name, _, value in (argument.partition("=") for argument in sys.argv[2:])}
    model = ScriptedModel(Path(sys.argv[1]), scripts=SCRIPTS, slots=4, context=4096, pass_seconds=0.001)
    return serve(resolve(CORE, flags, {}, None), plugin_set(chat=FakePlugin([model], ROUTES)))


if __name__ == "__main__":
    sys.exit(main())
