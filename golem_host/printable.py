"""Text that others wrote (file contents, requests), made fit for a log line or a terminal."""

from __future__ import annotations


def printable(text: str, longest: int | None = None) -> str:
    """`text` with everything that could garble or forge a line escaped, and what is past `longest` left out.

    Of a text that is too long beginning and end are kept, with the number of characters left out between them.
    """
    if longest is not None and len(text) > longest:
        half = longest // 2
        text = f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
