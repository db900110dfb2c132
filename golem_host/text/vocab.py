"""The vocabulary a GGUF file carries: tokens, their types and scores, and the ids that mean something."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from golem_host.text.endings import Endings, Roles, find_endings
from golem_host.text.infill import InfillTokens, find_infill
from golem_host.text.token_type import TokenType
from golem_host.weights import Gguf, GgufError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Defaults:
    """What holds for a kind of tokenizer where the file is silent (llama-vocab.cpp `load`)."""

    bos: int | None = None
    eos: int | None = None
    unk: int | None = None
    sep: int | None = None
    pad: int | None = None
    mask: int | None = None
    add_bos: bool = False
    add_eos: bool = False
    add_sep: bool = False
    add_space_prefix: bool = False


class Vocab:
    """Tokens by id and by bytes; read from the file's metadata, nothing copied until it is asked for.

    `bos`, `eos`, `eot`, `eom`, `unk`, `pad`, `sep`, `mask` are ids or None. `opening` and `closing` are what `encode`
    puts around a text, `joining` is what stands between the two texts of a pair. `add_space_prefix` says whether text
    after the start or a special token gets a leading space. `suppressed` are ids the model must never draw
    (`tokenizer.ggml.suppress_tokens`).

    With `force_bos` texts begin with BOS, with `force_sep` they end with the separator, whatever the file says.
    """

    def __init__(self, gguf: Gguf, defaults: Defaults, *, force_bos: bool = False, force_sep: bool = False) -> None:
        self._tokens = gguf.strings("tokenizer.ggml.tokens")
        if len(self._tokens) == 0:
            raise GgufError(gguf.path, "'tokenizer.ggml.tokens' is empty")
        self._stored_types = self._per_token(gguf, "tokenizer.ggml.token_type", ("int32", "uint32"))
        self._scores = self._per_token(gguf, "tokenizer.ggml.scores", ("float32", "int32"))
        self.bos = self._id(gguf, "bos", defaults.bos)
        self.eos = self._id(gguf, "eos", defaults.eos)
        self.unk = self._id(gguf, "unknown", defaults.unk)
        self.pad = self._id(gguf, "padding", defaults.pad)
        self.sep = self._id(gguf, "seperator", defaults.sep)  # spelled so in the format
        self.mask = self._id(gguf, "mask", defaults.mask)
        self._named_roles = Roles(
            eot=self._id(gguf, "eot", None),
            eom=self._id(gguf, "eom", None),
            fim_pad=self._id(gguf, "fim_pad", None),
            fim_rep=self._id(gguf, "fim_rep", None),
            fim_sep=self._id(gguf, "fim_sep", None),
        )
        # The older names come second.
        self._named_infill = {
            role: self._id(gguf, f"fim_{short}", self._id(gguf, role, None))
            for role, short in (("prefix", "pre"), ("suffix", "suf"), ("middle", "mid"))
        }
        self.add_bos = gguf.boolean("tokenizer.ggml.add_bos_token", defaults.add_bos) or force_bos
        self.add_eos = gguf.boolean("tokenizer.ggml.add_eos_token", defaults.add_eos)
        self.add_sep = gguf.boolean("tokenizer.ggml.add_sep_token", defaults.add_sep)
        self.add_space_prefix = gguf.boolean("tokenizer.ggml.add_space_prefix", defaults.add_space_prefix)
        if self.add_bos and self.bos is None:
            raise GgufError(gguf.path, "texts must begin with BOS, but 'tokenizer.ggml.bos_token_id' is missing")
        if self.add_eos and self.eos is None:
            raise GgufError(gguf.path, "texts must end with EOS, but 'tokenizer.ggml.eos_token_id' is missing")
        if force_sep and self.sep is None:
            raise GgufError(gguf.path, "texts must end with SEP, but 'tokenizer.ggml.seperator_token_id' is missing")
        self._force_sep = force_sep
        suppressed = gguf.array("tokenizer.ggml.suppress_tokens", np.empty(0, np.int32))
        if suppressed.dtype.kind not in "iu":
            raise GgufError(gguf.path, f"'tokenizer.ggml.suppress_tokens' is an array of {suppressed.dtype.name}")
        self.suppressed: tuple[int, ...] = tuple(id for id in suppressed.tolist() if 0 <= id < len(self))

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def opening(self) -> tuple[int, ...]:
        """Ids before a text."""
        return _ids(self.bos if self.add_bos else None)

    @property
    def closing(self) -> tuple[int, ...]:
        """Ids after a text."""
        return _ids(self.sep if self._force_sep else self.eos if self.add_eos else None)

    @property
    def joining(self) -> tuple[int, ...]:
        """Ids between the two texts of a pair (`format_prompt_rerank` of llama-server)."""
        end = self.sep if self.eos is None else self.eos
        return _ids(end if self.add_eos else None, self.sep if self.add_sep else None)

    def token(self, id: int) -> bytes:
        """The token as the file spells it (U+2581 for a space, or the byte alphabet). ValueError for an unknown id."""
        self.check(id)
        return self._tokens[id]

    def tokens(self) -> Iterator[bytes]:
        """Every `token`, by id."""
        return iter(self._tokens)

    def text(self, id: int) -> str:
        """`token` as text, for templates and listings; bytes that are not UTF-8 become U+FFFD."""
        return self.token(id).decode("utf-8", "replace")

    def type(self, id: int) -> TokenType:
        """The token's type, after the corrections of `endings.py`. ValueError for an unknown id."""
        self.check(id)
        return TokenType(int(self.types[id]))

    def check(self, id: int) -> None:
        """Raises ValueError unless `id` is a token."""
        if not 0 <= id < len(self):
            raise ValueError(f"token id {id} is outside the vocabulary of {len(self)} tokens")

    @cached_property
    def ids(self) -> Mapping[bytes, int]:
        """Ids by the token's bytes; of equal tokens the last one counts, empty tokens are left out."""
        ids = dict(zip(self._tokens, range(len(self)), strict=True))
        ids.pop(b"", None)
        return ids

    @cached_property
    def scores(self) -> list[float]:
        """Scores by id; 0 for all when the file has none."""
        return [0.0] * len(self) if self._scores is None else self._scores[: len(self)].astype(np.float32).tolist()

    @cached_property
    def types(self) -> NDArray[np.int32]:
        """Types by id, shape (tokens,), after the corrections of `endings.py`."""
        if self._stored_types is None:
            types = np.full(len(self), TokenType.NORMAL, np.int32)
        else:
            types = self._stored_types[: len(self)].astype(np.int32)
        for id, kind in self._endings.types.items():
            types[id] = kind
        return types

    @property
    def eot(self) -> int | None:
        """End of turn: named by the file or known by its text."""
        return self._endings.roles.eot

    @property
    def eom(self) -> int | None:
        """End of message, where a tool is to answer: named by the file or known by its text."""
        return self._endings.roles.eom

    @property
    def end_of_generation(self) -> frozenset[int]:
        """All ids that end an answer; none of them is text."""
        return self._endings.ends

    @cached_property
    def infill(self) -> InfillTokens | None:
        """How to ask for what is between two texts; None when there are no tokens for that."""
        roles = self._endings.roles
        return find_infill(self.ids, self._named_infill, roles.fim_rep, roles.fim_sep)

    @cached_property
    def _endings(self) -> Endings:
        return find_endings(self.ids, self._named_roles, self.eos)

    def _id(self, gguf: Gguf, name: str, default: int | None) -> int | None:
        if default is not None and default >= len(self):
            default = None
        key = f"tokenizer.ggml.{name}_token_id"
        id = gguf.u32(key, None)
        if id is None:
            return default
        if id >= len(self):  # common in converted files, which are fine otherwise
            _log.warning("%s: '%s' is %d, outside the vocabulary of %d tokens; ignored", gguf.path, key, id, len(self))
            return default
        return id

    def _per_token(self, gguf: Gguf, key: str, dtypes: tuple[str, ...]) -> NDArray | None:
        values = gguf.array(key, None)
        if values is None:
            return None
        if values.dtype.name not in dtypes:
            raise GgufError(gguf.path, f"'{key}' is an array of {values.dtype.name}, not of {' or '.join(dtypes)}")
        if len(values) < len(self):
            raise GgufError(gguf.path, f"'{key}' has {len(values)} elements for {len(self)} tokens")
        return values


def _ids(*ids: int | None) -> tuple[int, ...]:
    return tuple(id for id in ids if id is not None)
