"""How long passes of a picture are, by a clock that the test sets."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from golem_host.api import Job
from golem_host_krea2 import stepper as krea2_stepper
from golem_host_krea2.layer import SLICE_SECONDS
from golem_host_krea2.picture import Progress
from golem_host_krea2.stepper import PictureStepper


def test_a_pass_is_no_longer_than_the_lane_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are told what is left of the pass, and as many are done as fit it."""
    now = 0.0
    told: list[float | None] = []

    def draw(*_: Any) -> Generator[None, float | None, None]:
        nonlocal now
        while True:
            seconds = yield
            told.append(seconds)
            now += min(0.004, seconds or 1.0)

    monkeypatch.setattr(krea2_stepper, "draw", draw)
    stepper = PictureStepper(None, clock=lambda: now)
    request: Any = SimpleNamespace(progress=Progress("id", 1), width=256, height=256)
    assert stepper.admit(Job(request))
    for wanted, pieces in ((0.01, [0.01, 0.006, 0.002]), (0.002, [0.002]), (1.0, None)):
        stepper.pass_seconds = lambda wanted=wanted: wanted
        told.clear()
        begun = now
        stepper.step()
        assert now - begun == pytest.approx(min(wanted, SLICE_SECONDS))
        assert pieces is None or told == pytest.approx(pieces)
