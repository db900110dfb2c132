"""Which slot a prompt takes and how much of it may be kept: integers only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from golem_host_chat.slots import Ring, Slot, choose_slot, resumable, shared_prefix


def slot(
    index: int, tokens: list[int], *, used: float = 0.0, busy: bool = False, high_water: int | None = None
) -> Slot:
    made = Slot(index, list(tokens), len(tokens) - 1 if high_water is None else high_water, busy)
    made.last_used = used
    return made


def test_the_longest_prefix_of_a_tenth_or_more_wins() -> None:
    prompt = list(range(20))
    slots = [slot(0, []), slot(1, [0]), slot(2, [0, 1]), slot(3, [0, 1, 2, 99])]
    choice = choose_slot(slots, prompt, [], reuse=True)
    assert choice is not None and (choice.slot.index, choice.keep) == (3, 3)


def test_exactly_a_tenth_counts_and_less_takes_an_empty_slot() -> None:
    slots = [slot(0, [0, 1]), slot(1, [])]
    tenth = choose_slot(slots, list(range(20)), [], reuse=True)
    less = choose_slot(slots, list(range(21)), [], reuse=True)
    assert tenth is not None and (tenth.slot.index, tenth.keep) == (0, 2)
    assert less is not None and (less.slot.index, less.keep) == (1, 0)


def test_without_empty_slots_the_least_recently_used_is_taken() -> None:
    slots = [slot(0, [5], used=3.0), slot(1, [6], used=1.0), slot(2, [7], used=2.0)]
    choice = choose_slot(slots, list(range(30)), [], reuse=True)
    assert choice is not None and (choice.slot.index, choice.keep) == (1, 0)


def test_the_last_token_is_always_read_again() -> None:
    choice = choose_slot([slot(0, [1, 2, 3])], [1, 2, 3], [], reuse=True)
    assert choice is not None and choice.keep == 2


def test_reuse_can_be_declined_and_all_busy_is_none() -> None:
    assert choose_slot([slot(0, [1, 2], busy=True)], [1, 2], [], reuse=True) is None
    choice = choose_slot([slot(0, [1, 2, 3])], [1, 2, 3], [], reuse=False)
    assert choice is not None and choice.keep == 0 and choice.copy_from is None


def test_a_busy_slot_lends_a_long_prefix() -> None:
    prompt = list(range(100))
    lender = slot(0, list(range(90)), busy=True)
    choice = choose_slot([lender, slot(1, [])], prompt, [], reuse=True)
    assert choice is not None and (choice.slot.index, choice.keep, choice.copy_from) == (1, 90, lender)
    short = slot(0, list(range(40)), busy=True)
    choice = choose_slot([short, slot(1, [])], prompt, [], reuse=True)
    assert choice is not None and (choice.keep, choice.copy_from) == (0, None)


def test_a_state_has_no_earlier_position() -> None:
    held = slot(0, [1, 2, 3])
    assert [resumable(held, shared, [], recurrent=True) for shared in (3, 2, 0)] == [3, 0, 0]


def test_a_window_rewinds_only_while_it_is_whole() -> None:
    ring = [Ring(window=4, cells=10)]
    held = slot(0, list(range(12)))  # positions 0 and 1 are overwritten by 10 and 11
    assert resumable(held, 5, ring) == 5  # needs 2, 3, 4
    assert resumable(held, 4, ring) == 0  # would need 1
    assert resumable(held, 0, ring) == 0


@given(
    window=st.integers(1, 8),
    wide=st.integers(0, 8),
    turns=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=6),
)
def test_what_is_kept_is_really_in_the_ring(window: int, wide: int, turns: list[tuple[int, int]]) -> None:
    """Replay writes into a model of the ring: a position a resumed prompt sees always holds its own turn's write."""
    ring = Ring(window, window + wide + 1)
    cells: dict[int, tuple[int, int]] = {}
    held = Slot(0)
    written: list[int] = []
    for turn, (shared, more) in enumerate(turns):
        keep = resumable(held, min(shared, len(held.tokens)), [ring])
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
