"""How models mark their reasoning."""

from __future__ import annotations

from dataclasses import dataclass

from golem_host_chat.formats.cursor import SPACE


@dataclass(frozen=True)
class Thought:
    """The texts around a thought.

    With `anywhere` a thought may begin within the answer, and a marker that stands alone is no text; otherwise only
    what the answer begins with is a thought, so that text may speak of the markers.
    """

    opening: str
    closing: str
    strays: tuple[str, ...] = ()
    """Parts of markers that are no text wherever they stand."""
    inside: str = "\n"
    """What models write between a marker and the thought, and after it, before the content."""
    after: str = ""

    @property
    def anywhere(self) -> bool:
        return bool(self.strays)

    @property
    def markers(self) -> tuple[str, ...]:
        return (self.opening, self.closing, *self.strays)

    def is_open(self, prompt: str, begun: str) -> bool:
        """Whether `prompt`, which a template made, and the answer's `begun` text end within a thought."""
        begun_so = begun.lstrip(SPACE)
        if begun_so.startswith(self.opening) or self.closing in begun_so:
            return self.closing not in begun_so
        return prompt.rstrip(SPACE).endswith(self.opening)

    def begun(self, prompt: str, reasoning: str, content: str | None) -> str:
        """An answer to `prompt` that has got as far as this, as a model writes it; without content (None) it is within
        its reasoning.
        """
        opened = prompt.rstrip(SPACE).endswith(self.opening)
        if opened and prompt.endswith(self.opening):
            opening = self.inside
        else:
            opening = "" if opened else self.opening + self.inside
        rest = "" if content is None else f"{self.inside}{self.closing}{self.after}{content}"
        return opening + reasoning + rest


THOUGHTS = (
    Thought("<|channel>thought", "<channel|>", strays=("<|channel>", "<channel|>")),  # Gemma 4
    Thought("[THINK]", "[/THINK]", inside=""),  # Mistral
    Thought("<think>", "</think>", after="\n\n"),  # Qwen, DeepSeek, SmolLM3 and most others
)


def find_thought(source: str) -> Thought | None:
    """The markers a chat template's `source` writes or cuts at; None when it knows no thoughts."""
    return next((thought for thought in THOUGHTS if thought.closing in source), None)
