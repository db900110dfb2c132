"""llama-server's `POST /infill`: what belongs between two texts, where the vocabulary has tokens for that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.errors import NotSupported
from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.off_loop import off_loop
from golem_host.http.requestlog import log_note
from golem_host.text.infill import InfillTokens
from golem_host.text.tokenizer import Tokenizer
from golem_host_chat.routes.choices import Choices
from golem_host_chat.routes.llama_answer import Asked, NativeAnswer
from golem_host_chat.routes.openai_fields import draw_of
from golem_host_chat.routes.prompt_shapes import Segment, prompt_segments
from golem_host_chat.routes.token_ids import checked_ids

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_chat.runtime import ChatRuntime

WINDOW = 2048
"""Tokens that prefix and suffix may have together, three parts to one, as in llama-server; half a smaller context."""
_SNIPPET = "\n\n--- snippet ---\n\n"
"""Parts further texts where the vocabulary has no token for a file's beginning."""


@dataclass(frozen=True)
class Infill:
    """`extra` are the names and texts of other files. Prefix and suffix may mix texts and token ids."""

    prefix: list[Segment]
    suffix: list[Segment]
    prompt: str
    extra: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, fields: Fields) -> Infill:
        """Raises `BadRequest` naming the field at fault."""
        return cls(
            _segments(fields, "input_prefix"),
            _segments(fields, "input_suffix"),
            fields.string("prompt", ""),
            _extra(fields),
        )

    def tokens(
        self, tokenizer: Tokenizer, marks: InfillTokens, *, context: int, reserved: int
    ) -> tuple[list[int], int]:
        """The prompt, and how many tokens of prefix, suffix and other files were left out to make it short.

        The end of the prefix and the beginning of the suffix are kept, and the end of the other files as far as
        `context` allows with `reserved` tokens for the answer.
        """

        def encode(text: str) -> list[int]:
            return tokenizer.encode(text, add_special=False, parse_special=False)

        def mixed(segments: list[Segment], name: str) -> list[int]:
            parts = (
                encode(each) if isinstance(each, str) else checked_ids(tokenizer, [each], name) for each in segments
            )
            return [token for part in parts for token in part]

        prompt = tokenizer.encode(self.prompt, add_special=False)
        prefix, suffix = mixed(self.prefix, "input_prefix"), mixed(self.suffix, "input_suffix")
        extra = [] if marks.repository is None else [marks.repository, *encode("myproject\n")]
        for name, text in self.extra:
            begin = encode(_SNIPPET) if marks.file is None else [marks.file, *encode(f"{name}\n")]
            extra += begin + encode(text)
        if marks.file is not None:
            extra += [marks.file, *encode("filename\n")]
        window = min(WINDOW, context // 2)
        kept_prefix = prefix[max(0, len(prefix) - 3 * (window // 4)) :]
        kept_suffix = suffix[: max(0, window // 4 - 2 - len(prompt))]
        kept_extra = extra[max(0, len(extra) - max(0, context - window - reserved)) :]
        left_out = len(prefix) + len(suffix) + len(extra) - len(kept_prefix) - len(kept_suffix) - len(kept_extra)
        return [*kept_extra, *between(tokenizer, marks, [*kept_prefix, *prompt], kept_suffix)], left_out


def between(tokenizer: Tokenizer, marks: InfillTokens, prefix: list[int], suffix: list[int]) -> list[int]:
    """The prompt that asks for what is between two texts."""
    return [*tokenizer.vocab.opening, marks.prefix, *prefix, marks.suffix, *suffix, marks.middle]


async def infill(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """Write what is between."""
    fields = Fields(await read_json(request))
    asked = Asked.read(fields)
    wanted = Infill.read(fields)
    model = host.registry.resolve(asked.shared.model, "chat")
    async with host.registry.use(model, asked.shared.keep_alive) as used:
        runtime = cast("ChatRuntime", used)
        marks = runtime.tokenizer.vocab.infill
        if marks is None:
            raise NotSupported("Infill is not supported by this model: prefix, suffix or middle token is missing.")
        with runtime.lane.arriving():
            draw, left_out = await off_loop(
                request, lambda: _draw(fields, asked, wanted, runtime, marks), long=asked.shared.takes_long
            )
        if left_out:
            log_note(request).extra["infill tokens left out"] = left_out
        choices = Choices(runtime.lane, draw)
        held = host.registry.use(model, asked.shared.keep_alive)
        return await NativeAnswer(request, asked, draw, choices, runtime.tokenizer, model.name, held).send()


def _draw(fields: Fields, asked: Asked, wanted: Infill, runtime: ChatRuntime, marks: InfillTokens) -> tuple[Any, int]:
    most = runtime.max_tokens if asked.shared.max_tokens is None else asked.shared.max_tokens
    reserved = runtime.context // 8 if most is None else most
    tokens, left_out = wanted.tokens(runtime.tokenizer, marks, context=runtime.context, reserved=reserved)
    return draw_of(fields, asked.shared, runtime, [tokens]), left_out


def _segments(fields: Fields, name: str) -> list[Segment]:
    value = fields.value(name)
    if value is None:
        raise fields.fault(name, f'"{name}" is required')
    if value in ("", []):
        return []
    if isinstance(value, list) and not all(
        isinstance(each, str | int) and not isinstance(each, bool) for each in value
    ):
        raise fields.fault(name, "expected a string, or an array of strings and token ids")
    if isinstance(value, list):
        return value
    return prompt_segments(fields.string(name))[0]


def _extra(fields: Fields) -> tuple[tuple[str, str], ...]:
    found = []
    for index, chunk in enumerate(fields.array("input_extra") or []):
        if not isinstance(chunk, dict):
            raise fields.fault("input_extra", '"input_extra" must be an array of {"filename": string, "text": string}')
        part = Fields(chunk, f"{fields.prefix}input_extra[{index}].")
        text = part.string("text")
        if text is None:
            raise part.fault("text", 'extra_context chunk must contain a "text" field with a string value')
        found.append((part.string("filename", "tmp"), text))
    return tuple(found)
