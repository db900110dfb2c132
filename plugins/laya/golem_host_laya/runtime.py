"""A loaded laya model: its lane and tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from golem_host.api import InternalError, Job, OneShotLane
from golem_host.lanes.oneshot import Part
from golem_host_laya import answers
from golem_host_laya.checkpoint import Checkpoint
from golem_host_laya.passes import Decision, Passes
from golem_host_laya.questions import Question
from golem_host_laya.sequences import Budget, Row, build
from golem_host_laya.tokens import Tokens

if TYPE_CHECKING:
    from golem_host.devices.device import Device
    from golem_host_laya.model import LayaModel

PASS_ROWS = 4096
"""Tokens of a pass, unless a single sequence has more."""
GATHER_ROWS = 256
"""A pass of fewer tokens takes nearly as long with more (it reads all weights), so it waits for them ..."""
GATHER_SECONDS = 0.003
"""... this long."""


@dataclass(frozen=True)
class Asked:
    """What a job carries: the questions about a state and their sequences, and the decisions so far."""

    questions: Sequence[Question]
    rows: list[Row]
    state_tokens: int
    costs: list[int]
    decisions: list[Decision] = field(default_factory=list)


class LayaRuntime:
    """What routes need of a loaded model."""

    def __init__(
        self,
        model: LayaModel,
        checkpoint: Checkpoint,
        device: Device,
        settings: Mapping[str, Any],
        *,
        progress: Callable[[float], None],
    ) -> None:
        self._checkpoint = checkpoint
        self.hparams = checkpoint.hparams
        self.tokens = Tokens(checkpoint.path / "tokenizer", self.hparams.encoder.vocabulary)
        self._passes = Passes(checkpoint, device.backend)
        self._passes.prepare(progress)
        self.lane = OneShotLane(
            model.name,
            self._run,
            kind=model.kind,
            costs=lambda job: job.request.costs,
            budget=PASS_ROWS,
            gather_below=GATHER_ROWS,
            gather_seconds=GATHER_SECONDS,
            queue_limit=settings["queue"],
        )

    def ask(self, state: Any, questions: Sequence[Question], *, whole: int | None, head: int | None) -> Asked:
        """A request of at least one question as a job carries it; `whole` and `head` are budgets other than the
        checkpoint's. Raises InvalidQuestion. Not for the event loop when the state is long.
        """
        budget = Budget(whole or self.hparams.max_len, head or self.hparams.head_max_len)
        rows, state_tokens = build(self.tokens, state, questions, budget)
        return Asked(questions, rows, state_tokens, [len(row.ids) for row in rows])

    def submit(self, asked: Asked) -> Job[Asked]:
        """Queue a request; the job's result is its answer. Raises what `Lane.submit` raises."""
        job = Job(asked)
        self.lane.submit(job)
        return job

    def close(self) -> None:
        """Give the weights back; the checkpoint is closed with them."""
        self._passes.close()
        self._checkpoint.close()

    def _run(self, parts: list[Part]) -> None:
        """One pass. A request with a question whose numbers are not finite fails, the others do not."""
        chosen = [(part.job.request, each) for part in parts for each in range(part.first, part.end)]
        decisions = iter(
            self._passes.run(
                [asked.rows[each] for asked, each in chosen], [asked.questions[each].kind for asked, each in chosen]
            )
        )
        for part in parts:
            asked: Asked = part.job.request
            del asked.decisions[part.first :]  # of a pass that failed
            asked.decisions.extend(next(decisions) for _ in range(part.first, part.end))
            damaged = [at for at in range(part.first, part.end) if not asked.decisions[at].finite]
            if damaged:
                name = asked.questions[damaged[0]].id
                part.job.fail(InternalError(f"the model's answer to {name!r} is not finite: its weights are damaged"))
            elif part.last:
                part.job.finish(
                    answers.result(self.hparams, asked.questions, asked.rows, asked.state_tokens, asked.decisions)
                )
