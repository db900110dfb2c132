"""An answer in llama-server's own shape: its objects, whole and in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from litestar import Request, Response

from golem_host.http.fields import Fields
from golem_host.http.requestlog import log_note
from golem_host.http.streams import stream_reply
from golem_host.http.writing import json_response
from golem_host.text.tokenizer import Tokenizer
from golem_host_chat.generation import Completion, Progress
from golem_host_chat.routes.choices import Choices, Draw
from golem_host_chat.routes.generation_settings import request_settings
from golem_host_chat.routes.openai_bodies import prompt_progress, timings
from golem_host_chat.routes.openai_fields import SharedFields, shared_fields
from golem_host_chat.routes.reading import Ending, Piece
from golem_host_chat.routes.token_probabilities import TokenWriter, of_completion
from golem_host_chat.routes.totals import Totals, fill_note
from golem_host_chat.routes.unserved import NATIVE, refuse_unserved

MAX_FIELDS = 256
"""Names in `response_fields`, each of which is looked up in every answer."""


@dataclass(frozen=True)
class Asked:
    """A request's fields that need no model. `paths` are the members the last object is to have; empty: all."""

    shared: SharedFields
    return_tokens: bool
    paths: tuple[str, ...]

    @classmethod
    def read(cls, fields: Fields) -> Asked:
        """Raises `BadRequest` naming the field at fault."""
        refuse_unserved(fields, NATIVE)
        shared = shared_fields(fields, of_completion)
        if shared.stream:
            shared = replace(shared, extras=replace(shared.extras, ids=True))
        return cls(shared, fields.boolean("return_tokens", False), _paths(fields))


def _paths(fields: Fields) -> tuple[str, ...]:
    paths = fields.array("response_fields") or []
    if not all(isinstance(path, str) for path in paths):
        raise fields.fault("response_fields", "expected an array of strings")
    if len(paths) > MAX_FIELDS:
        raise fields.fault("response_fields", f"{len(paths)} names are given; at most {MAX_FIELDS} are taken")
    return tuple(paths)


class NativeAnswer:
    """The answer to one request. `held` is the use of the model: a stream outlives its handler and enters it again."""

    def __init__(
        self,
        request: Request[Any, Any, Any],
        asked: Asked,
        draw: Draw,
        choices: Choices,
        tokenizer: Tokenizer,
        model: str,
        held: AbstractAsyncContextManager[Any],
    ) -> None:
        self._request = request
        self._asked = asked
        self._draw = draw
        self._choices = choices
        self._tokenizer = tokenizer
        self._model = model
        self._held = held
        self._tokens = TokenWriter(tokenizer, draw.extras.probs)
        self._counts = [0] * len(choices.jobs)

    async def send(self) -> Response[bytes]:
        """Streamed or whole, as the request asks; an array where there are several answers."""
        if self._asked.shared.stream:
            return await stream_reply(
                self._request,
                self._choices.jobs,
                self._events(),
                framing="sse",
                dialect="llama",
                done=None,
                ping_seconds=self._asked.shared.ping_seconds,
            )
        endings = await self._choices.whole(self._request)
        self._note(endings)
        objects = [self._final(index, ending.completion) for index, ending in enumerate(endings)]
        return json_response(objects if len(objects) > 1 else objects[0])

    async def _events(self) -> AsyncIterator[dict[str, Any]]:
        ended: dict[int, Ending] = {}
        async with self._held, aclosing(self._choices.events()) as events:
            async for index, event in events:
                if isinstance(event, Progress):
                    yield {**self._piece(index, Piece(slot=event.slot)), "prompt_progress": prompt_progress(event)}
                elif isinstance(event, Piece):
                    yield self._piece(index, event)
                else:
                    ended[index] = event
                    if len(ended) == len(self._choices.jobs):
                        self._note([ended[index] for index in sorted(ended)])
                    yield self._final(index, event.completion)

    def _note(self, endings: list[Ending]) -> None:
        fill_note(log_note(self._request), [ending.completion for ending in endings], self._draw.copies)

    def _piece(self, index: int, piece: Piece) -> dict[str, Any]:
        self._counts[index] += len(piece.ids)
        members: dict[str, Any] = {
            "index": index,
            "content": piece.content,
            "tokens": list(piece.ids),
            "stop": False,
            "id_slot": piece.slot,
            "tokens_predicted": self._counts[index],
            "tokens_evaluated": len(self._prompt(index)),
        }
        if piece.timings is not None:
            members["timings"] = timings(Totals.timed(piece.timings))
        if piece.tokens:
            members["completion_probabilities"] = self._tokens.entries(piece.tokens)
        return members

    def _final(self, index: int, completion: Completion) -> dict[str, Any]:
        whole = not self._asked.shared.stream
        members = {
            "index": index,
            "content": completion.text if whole else "",
            "tokens": completion.tokens if whole and self._asked.return_tokens else [],
            "id_slot": completion.slot,
            "stop": True,
            "model": self._model,
            "tokens_predicted": completion.completion_tokens,
            "tokens_evaluated": completion.prompt_tokens,
            "generation_settings": self._settings,
            "prompt": self._tokenizer.decode(self._prompt(index), special=True).decode("utf-8", "replace"),
            "has_new_line": "\n" in completion.text,
            "truncated": completion.truncated,
            "stop_type": _stop_type(completion),
            "stopping_word": completion.stop_word or "",
            "tokens_cached": completion.prompt_tokens + max(completion.completion_tokens - 1, 0),
            "timings": timings(Totals.timed(completion.timings)),
        }
        if whole and completion.probabilities:
            members["completion_probabilities"] = self._tokens.entries(completion.probabilities)
        return _chosen(members, self._asked.paths) if self._asked.paths else members

    def _prompt(self, index: int) -> list[int]:
        return self._draw.prompts[index // self._draw.copies]

    @cached_property
    def _settings(self) -> dict[str, Any]:
        shared = self._asked.shared
        grammar = "" if shared.constraint is None else shared.constraint.gbnf
        return request_settings(self._draw, stream=shared.stream, ignore_eos=shared.ignore_eos, grammar=grammar)


def _stop_type(completion: Completion) -> str:
    if completion.finish == "length":
        return "limit"
    return "eos" if completion.stop_word is None else "word"


def _chosen(members: dict[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    """The members at `paths` (`a/b`: b of a), each under its path; a path that leads nowhere is left out."""
    chosen = {}
    for path in paths:
        value: Any = members
        for name in path.split("/"):
            value = value.get(name, _chosen) if isinstance(value, dict) else _chosen
        if value is not _chosen:
            chosen[path] = value
    return chosen
