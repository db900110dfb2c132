"""Precompiled character maps for tiny vocabularies, as `golem_host/text/charsmap.py` reads them."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_BLOCK = 256


def charsmap(replacements: Mapping[str, str]) -> bytes:
    """A map that replaces each key (not empty, no NUL in it) by its value.

    Every node of the trie has a block of units of its own, so that no children ever collide: a kilobyte a node.
    """
    strings = b""
    places: dict[bytes, int] = {}
    for key, value in replacements.items():
        places[key.encode()] = len(strings)
        strings += value.encode() + b"\0"
    nodes = sorted({key[:end] for key in places for end in range(len(key) + 1)} | {b""})
    base = {node: (1 + number) * _BLOCK for number, node in enumerate(nodes)}
    units = [0] * (len(nodes) + 1) * _BLOCK
    units[0] = base[b""] << 10
    for node in nodes:
        if node in places:
            units[base[node]] = 1 << 31 | places[node]
        if node:
            at = base[node[:-1]] ^ node[-1]
            units[at] = (at ^ base[node]) << 10 | (node in places) << 8 | node[-1]
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + (strings or b"\0")
