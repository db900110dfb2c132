"""Plain tables for a terminal: columns aligned by spaces, no colours, nothing cut off."""

from __future__ import annotations

from collections.abc import Sequence


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under headings. A cell with several lines continues below itself."""
    lines = [list(headings)]
    for row in rows:
        cells = [cell.split("\n") for cell in row]
        for number in range(max(len(cell) for cell in cells)):
            lines.append([cell[number] if number < len(cell) else "" for cell in cells])
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
