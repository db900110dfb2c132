"""`tokenizer.json`, through the library that defines the format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from golem_host.errors import ModelFileError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["guarded", "open_tokenizer_json"]

MAX_TOKENIZER_BYTES = 1 << 28

Result = TypeVar("Result")


def open_tokenizer_json(path: Path, rows: int) -> tuple[Tokenizer, int]:
    """The tokenizer in `path`, cutting and padding nothing, and the size of its vocabulary.

    Its ids must be rows of a table of `rows`. Raises `ModelFileError` for a file that is missing or cannot be used.
    """
    from tokenizers import Tokenizer

    if not path.is_file():
        raise ModelFileError(path, "is missing; transformers writes it when it saves a tokenizer")
    if path.stat().st_size > MAX_TOKENIZER_BYTES:
        raise ModelFileError(path, f"is larger than the {MAX_TOKENIZER_BYTES} bytes that are read")
    try:
        tokenizer = guarded(lambda: Tokenizer.from_str(path.read_text(encoding="utf-8")))
    except Exception as error:
        raise ModelFileError(path, f"is no tokenizer: {error}") from None
    # What a file says of its training's batches has nothing to do with the texts served.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    size = max(tokenizer.get_vocab().values(), default=-1) + 1
    if not 0 < size <= rows:
        raise ModelFileError(path, f"has ids up to {size - 1}; the model's table has {rows} rows")
    return tokenizer, size


def guarded(act: Callable[[], Result]) -> Result:
    """A panic of the library's Rust code is no `Exception`; here it becomes one."""
    try:
        return act()
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"the tokenizer failed: {error}") from None
