"""Names of files that a client may choose: llama.cpp's rule, which keeps a file in its folder on every system."""

from __future__ import annotations

MAX_BYTES = 255
_FORBIDDEN = frozenset('/\\:*?"<>|') | frozenset("\uff0e\u2215\u2216\ufffd\ufeff")


def is_file_name(name: str) -> bool:
    """Whether `name` is one: of a plain file in a folder, whatever its encoding is taken for.

    At most 255 bytes of UTF-8; no control characters, surrogates, separators, wildcards or characters that look like a
    dot or a slash; no space at either end, no dot at the end, no two dots together.
    """
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return False
    controls = any(ord(character) < 0x20 or 0x7F <= ord(character) <= 0x9F for character in name)
    edges = name != name.strip(" ") or name.endswith(".") or ".." in name
    return 0 < length <= MAX_BYTES and not controls and not edges and _FORBIDDEN.isdisjoint(name)
