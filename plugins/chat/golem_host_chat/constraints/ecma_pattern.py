"""`pattern` of JSON schemas, which is in ECMAScript's notation, for a compiler that reads Rust's."""

from __future__ import annotations


def rust_pattern(pattern: str) -> str:
    """The same expression as Rust's regex crate has it: within `[...]` only ECMAScript's operators count.

    What neither has is left to its compiler. Raises ValueError where the two differ and no translation is made.
    """
    out: list[str] = []
    in_class = False
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            if at + 1 == len(pattern):
                raise ValueError("it ends with a backslash")
            out.append(pattern[at : at + 2])
            at += 2
            continue
        if in_class and pattern.startswith("--", at):
            raise ValueError("'--' within '[...]' is ambiguous: escape a hyphen that stands for itself")
        if in_class and char in "[&~":
            out.append("\\")
        elif char in "[]":
            in_class = char == "["
        out.append(char)
        at += 1
    return "".join(out)
