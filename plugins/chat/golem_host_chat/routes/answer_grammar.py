"""The grammar of a chat answer: a thought where there may be one, then what was asked for, or calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from golem_host.errors import BadRequest
from golem_host_chat.constraints.constraint import Constraint
from golem_host_chat.constraints.vocabulary import UncompiledError
from golem_host_chat.constraints.writer import GrammarWriter
from golem_host_chat.formats.tagged_json import SPACES
from golem_host_chat.routes.constraint_fields import AskedConstraint

if TYPE_CHECKING:
    from golem_host_chat.formats.thoughts import Thought
    from golem_host_chat.routes.chat_prompt import Framing
    from golem_host_chat.routes.reading import Reading
    from golem_host_chat.runtime import ChatRuntime


def answer_constraint(
    runtime: ChatRuntime, framing: Framing, reading: Reading, asked: AskedConstraint | None
) -> Constraint | None:
    """What the answer must look like, None when it may be any text.

    What was asked for comes after the thought, where the model may think; it may be left for calls where there are
    tools. Raises `BadRequest` for what cannot be enforced.
    """
    tooling = framing.tooling
    if asked is None and not tooling.required:
        return None
    if asked is not None and tooling.required:
        raise BadRequest(
            f"Field '{asked.field}': an answer that must be a call (tool_choice) can be nothing else", param=asked.field
        )
    write = GrammarWriter(runtime.tokenizer)
    try:
        bodies = ["answer"] if asked is not None else []
        if reading.calls is not None:
            called = tooling.required or tuple(tooling.schemas)
            schemas = {name: tooling.schemas[name] for name in called}
            bodies.append(reading.calls.grammar(write, schemas, several=not tooling.single))
        body = " | ".join(f"({each})" for each in bodies)
        thought = _thought(write, runtime.template.thought if runtime.template else None, framing, reading)
        start = f"start: {thought} ({body})\n"
    except ValueError as error:
        raise BadRequest(f"Field 'tools': {error}", param="tools") from error
    rules = "" if asked is None else asked.rules()
    try:
        return Constraint(runtime.constraints, start + write.rules + rules)
    except UncompiledError as error:
        field = "tools" if asked is None else asked.field
        raise BadRequest(f"Field '{field}': {error}", param=field) from error


def _thought(write: GrammarWriter, thought: Thought | None, framing: Framing, reading: Reading) -> str:
    """The thought before the answer: the rest of one that the prompt opened, or one that was asked for, or none."""
    if thought is None or not (reading.opened or framing.thinks):
        return ""
    rest = f"{write.until(thought.closing)} {write.pattern(SPACES)}"
    return rest if reading.opened else f"({write.text(thought.opening)} {rest})?"
