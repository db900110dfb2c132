"""What a slot does, or did last."""

from __future__ import annotations

from dataclasses import dataclass, field

from golem_host_chat.sampling_params import SamplingParams


@dataclass(frozen=True)
class SlotReport:
    """Of slot number `slot`; `job` is the number of the job it has or had, None before the first.

    `tokens` are what the slot holds, `read` and `cached` the parts of its prompt that were read and kept, `drawn` what
    was drawn since, `left` how much may still be.
    """

    slot: int
    processing: bool = False
    job: int | None = None
    tokens: int = 0
    read: int = 0
    cached: int = 0
    drawn: int = 0
    left: int = 0
    has_new_line: bool = False
    params: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
