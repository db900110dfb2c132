"""Text that others wrote (file contents, requests), made fit for a log line or a terminal."""

from __future__ import annotations


def printable(text: str, longest: int | None = None) -> str:
    """`text` with everything that could garble or forge a line escaped, `shortened` to `longest` characters first."""
    if longest is not None:
        text = shortened(text, longest)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def described(error: BaseException) -> str:
    """Class and text, on one line, of an error that others' code raised; also of one whose text cannot be told."""
    try:
        text = " ".join(str(error).split()) or "no message"
    except Exception as fault:
        text = f"no message, for telling it raises {type(fault).__name__}"
    return f"{type(error).__name__}: {text}"


def shortened(text: str, longest: int) -> str:
    """`text`; of one that is longer beginning and end, with the number of characters left out between them."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"
