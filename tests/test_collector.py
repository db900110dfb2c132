"""What collections leave out, and when they look at it again."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from golem_host import collector


class Knot:
    """Only the collector frees one."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_is_settled_is_left_out_until_everything_is_collected() -> None:
    knot = Knot()
    held = weakref.ref(knot)
    collector.settle()
    del knot
    gc.collect()
    assert held() is not None
    collector.collect()
    assert held() is None
