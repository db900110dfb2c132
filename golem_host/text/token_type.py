"""What tokens are for."""

from __future__ import annotations

from enum import IntEnum


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type`; a number not listed counts as UNDEFINED."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6

    @classmethod
    def _missing_(cls, value: object) -> TokenType:
        return cls.UNDEFINED
