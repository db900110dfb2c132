"""A few made-up GGUF files for all that reads them; `gguf_fuzz.py` makes many more."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from gguf_fuzz import ending, sources
from gguf_mutations import mutated

CASES = 600


def test_no_file_is_a_surprise(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "golem_host")
    path = tmp_path / "case.gguf"
    files = sources(tmp_path)
    for file, reader in files:
        path.write_bytes(file.data())
        assert ending(path, reader) == "served"
    ends: Counter[str] = Counter()
    for case in range(CASES):
        random = Random(case)
        file, reader = random.choice(files)
        path.write_bytes(mutated(file, random))
        ends[ending(path, reader)] += 1
    assert ends["served"] > CASES // 50, "hardly a file is a model: the changes are too coarse to test what comes after"
    assert ends["refused"] > CASES // 2
