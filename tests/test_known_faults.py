"""docs/known-faults.md names a test for every fault; the tests are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = [line for line in (ROOT / "docs/known-faults.md").read_text().splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[1].strip() for row in ROWS])
def test_every_fault_has_its_tests(row: str) -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", row.split("|")[-2])
    assert named
    for file, test in named:
        functions = {
            node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)
        }
        assert test in functions, f"{file} has no {test}"
