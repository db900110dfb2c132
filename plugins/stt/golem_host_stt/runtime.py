"""A loaded speech-to-text model: its lane, and what routes submit to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from golem_host.api import Job, Overloaded
from golem_host_stt.checkpoint import Checkpoint
from golem_host_stt.lane import ListeningLane
from golem_host_stt.listening import Request
from golem_host_stt.passes import Passes
from golem_host_stt.stepper import ListeningStepper
from golem_host_stt.streams import Live, Whole
from golem_host_stt.text import Pieces

if TYPE_CHECKING:
    from golem_host.devices.device import Device
    from golem_host_stt.model import SttModel


MAX_HELD_SECONDS = 4 * 3600
"""Of recordings that wait or are heard: an hour takes 330 MiB of memory."""


class SttRuntime:
    """What routes need of a loaded model."""

    def __init__(
        self,
        model: SttModel,
        checkpoint: Checkpoint,
        device: Device,
        settings: Mapping[str, Any],
        *,
        progress: Callable[[float], None],
    ) -> None:
        self._checkpoint = checkpoint
        self.lm, self.timing, self.streams = checkpoint.lm, checkpoint.timing, settings["stt-streams"]
        self.pieces = Pieces(checkpoint.tokenizer, self.lm.text_cards, self.lm.padding)
        self._passes = Passes(
            checkpoint,
            device.backend,
            slots=self.streams,
            q8_0=settings["stt-quantize"] == "q8_0",
            progress=progress,
        )
        self._seconds: WeakKeyDictionary[Job[Request], float] = WeakKeyDictionary()
        self._stepper = ListeningStepper(self._passes, self.lm, self.timing, self.pieces)
        self.lane = ListeningLane(model.name, self._stepper, kind=model.kind, queue_limit=settings["queue"])

    @property
    def room(self) -> bool:
        """Whether a stream could be heard beside those that are."""
        return self._stepper.room

    def transcribe(self, recording: Whole, *, logprobs: bool) -> Job[Request]:
        """Queue a recording; the job's events are `Delta`s and its result is a `Transcript`. Raises what `Lane.submit`
        raises, and `Overloaded` when recordings of hours are waiting.
        """
        held = sum(seconds for job, seconds in self._seconds.items() if job.end is None)
        if held + recording.seconds > MAX_HELD_SECONDS:
            raise Overloaded(
                f"server busy: {held / 3600:.1f} hours of audio are waiting for {self.lane.name}; try again"
            )
        job = self._submit(Request(recording, logprobs))
        self._seconds[job] = recording.seconds
        return job

    def listen(self) -> Job[Request]:
        """Queue a live stream, whose events are `Heard`; it ends when it is cancelled. Raises what `Lane.submit`
        raises.
        """
        return self._submit(Request(Live()))

    def _submit(self, request: Request) -> Job[Request]:
        job = Job(request)
        self.lane.submit(job)
        return job

    def close(self) -> None:
        """Give the weights back; the checkpoint is closed with them."""
        self._passes.close()
        self._checkpoint.close()
