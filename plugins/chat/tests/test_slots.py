"""Which slot a prompt takes and how much of it may be kept: integers only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host_chat.checkpoints import plan_checkpoints
from golem_host_chat.memory import SlotCopy
from golem_host_chat.slots import (
    Choice,
    Held,
    Layout,
    Ring,
    Slot,
    Start,
    choose_slot,
    resumable,
    shared_prefix,
)


def slot(
    index: int, tokens: list[int], *, used: float = 0.0, busy: bool = False, high_water: int | None = None
) -> Slot:
    high_water = len(tokens) - 1 if high_water is None else high_water
    return Slot(index=index, tokens=list(tokens), high_water=high_water, busy=busy, last_used=used)


def chosen(slots: list[Slot], prompt: list[int], **options: Any) -> tuple[int, int]:
    """The slot a prompt takes, and how much is kept."""
    choice = choose_slot(slots, prompt, Layout(), reuse=True, **options)
    assert choice is not None
    return choice.slot.index, choice.start.keep


def test_the_longest_prefix_of_a_tenth_or_more_wins() -> None:
    prompt = list(range(20))
    slots = [slot(0, []), slot(1, [0]), slot(2, [0, 1]), slot(3, [0, 1, 2, 99])]
    assert chosen(slots, prompt) == (3, 3)


def test_exactly_a_tenth_counts_and_less_takes_an_empty_slot() -> None:
    slots = [slot(0, [0, 1]), slot(1, [])]
    assert chosen(slots, list(range(20))) == (0, 2)
    assert chosen(slots, list(range(21))) == (1, 0)


def test_without_empty_slots_the_least_recently_used_is_taken() -> None:
    slots = [slot(0, [5], used=3.0), slot(1, [6], used=1.0), slot(2, [7], used=2.0)]
    assert chosen(slots, list(range(30))) == (1, 0)


def test_the_last_token_is_always_read_again() -> None:
    assert chosen([slot(0, [1, 2, 3])], [1, 2, 3]) == (0, 2)


def test_reuse_can_be_declined_and_all_busy_is_none() -> None:
    assert choose_slot([slot(0, [1, 2], busy=True)], [1, 2], Layout(), reuse=True) is None
    declining = slot(0, [1, 2, 3])
    assert choose_slot([declining], [1, 2, 3], Layout(), reuse=False) == Choice(declining, Start(declining), 0)


def test_a_busy_slot_lends_a_long_prefix() -> None:
    prompt = list(range(100))
    lender = slot(0, list(range(90)), busy=True)
    choice = choose_slot([lender, slot(1, [])], prompt, Layout(), reuse=True)
    assert choice is not None and (choice.slot.index, choice.start) == (1, Start(lender, 90, 90))
    assert chosen([slot(0, list(range(40)), busy=True), slot(1, [])], prompt) == (1, 0)


def test_what_is_kept_elsewhere_goes_into_the_slot_that_is_missed_least() -> None:
    prompt = list(range(200))
    kept = Held(tokens=list(range(150)), high_water=149)
    slots = [slot(0, list(range(30)), used=5.0), slot(1, [7], used=1.0)]
    choice = choose_slot(slots, prompt, Layout(), reuse=True, others=[kept])
    assert choice is not None and (choice.slot.index, choice.start) == (1, Start(kept, 150, 150))
    near = slot(0, list(range(100)), used=5.0)
    assert chosen([near, slots[1]], prompt, others=[kept]) == (0, 100)


def test_what_could_not_be_kept_counts_as_shared() -> None:
    """So that a checkpoint is made there, whichever slot reads it."""
    slots = [slot(0, list(range(50))), slot(1, [])]
    choice = choose_slot(slots, [*range(40), 99], Layout(recurrent=True), reuse=True)
    assert choice is not None and (choice.slot.index, choice.start.keep, choice.parted) == (1, 0, 40)


def test_a_state_has_no_past_but_its_checkpoints() -> None:
    layout = Layout(recurrent=True)
    held = slot(0, list(range(30)))
    assert [resumable(held, shared, layout).keep for shared in (30, 29, 0)] == [30, 0, 0]
    held.copies = [SlotCopy(10), SlotCopy(20)]
    starts = [resumable(held, shared, layout) for shared in (30, 29, 20, 19, 9)]
    assert [(start.keep, start.copy and start.copy.position) for start in starts] == [
        (30, None), (20, 20), (20, 20), (10, 10), (0, None),
    ]  # fmt: skip


def test_a_window_rewinds_while_it_is_whole_else_to_a_checkpoint() -> None:
    layout = Layout((Ring(window=4, cells=10),))
    held = slot(0, list(range(12)))  # positions 0 and 1 are overwritten by 10 and 11
    assert resumable(held, 5, layout).keep == 5  # needs 2, 3, 4
    assert resumable(held, 4, layout).keep == 0  # would need 1
    held.copies = [SlotCopy(3)]
    assert [resumable(held, shared, layout).keep for shared in (5, 4, 3, 2)] == [5, 3, 3, 0]


def test_what_was_put_back_is_a_window_and_nothing_older() -> None:
    layout = Layout((Ring(window=4, cells=10),))
    held = slot(0, list(range(30)))
    held.copies = [SlotCopy(12), SlotCopy(25)]
    held.rewind(resumable(held, 14, layout))
    assert (held.tokens, [copy.position for copy in held.copies]) == (list(range(12)), [12])
    held.wrote([0, 0])
    assert [resumable(held, shared, layout).keep for shared in (14, 13, 12, 11)] == [14, 13, 12, 0]


@pytest.mark.parametrize(
    ("kept", "start", "length", "points", "most", "planned"),
    [
        ([], 0, 5000, [], 4, (1024, 2048, 3072, 4096)),
        ([], 0, 1024, [], 4, ()),  # the last token is read again in any case
        ([1024], 1024, 2050, [1024], 4, (1024, 2048)),
        ([40], 100, 900, [100], 4, (40, 100)),
        ([40], 50, 900, [55], 4, (40,)),  # too near to what there is
        ([], 0, 900, [15, 16], 4, (16,)),
        ([], 300, 900, [200], 4, ()),  # already read
        ([], 0, 5000, [700], 0, ()),
        ([], 0, 5000, [700], 1, (4096,)),
        ([10, 500, 510, 900], 1000, 1100, [1000], 4, (500, 900, 1000, 1024)),
        ([], 0, 10 * 1024, [], 4, (2048, 4096, 6144, 9216)),
    ],
)
def test_checkpoints_cover_a_prompt(
    kept: list[int], start: int, length: int, points: list[int], most: int, planned: tuple[int, ...]
) -> None:
    assert plan_checkpoints(kept, start=start, length=length, points=points, most=most) == planned


@given(
    window=st.integers(1, 8),
    wide=st.integers(0, 8),
    turns=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=6),
)
def test_what_is_kept_is_really_in_the_ring(window: int, wide: int, turns: list[tuple[int, int]]) -> None:
    """Replay writes into a model of the ring: a position a resumed prompt sees always holds its own turn's write."""
    ring = Ring(window, window + wide + 1)
    layout = Layout((ring,))
    cells: dict[int, tuple[int, int]] = {}
    held = Held()
    written: list[int] = []
    for turn, (shared, more) in enumerate(turns):
        keep = resumable(held, min(shared, len(held.tokens)), layout).keep
        if not keep:
            held.forget()
        held.tokens, written = held.tokens[:keep], written[:keep]
        for position in range(max(0, keep - window + 1), keep):
            assert cells[position % ring.cells] == (position, written[position])
        for _ in range(more):
            position = len(held.tokens)
            cells[position % ring.cells] = (position, turn)
            held.wrote([position])
            written.append(turn)


def test_shared_prefix() -> None:
    assert shared_prefix([], [1]) == 0
    assert shared_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert shared_prefix([1, 2], [1, 2, 3]) == 2
    long = list(range(1000))
    for same in (0, 1, 255, 256, 257, 999, 1000):
        assert shared_prefix(long, [*long[:same], -1]) == same
