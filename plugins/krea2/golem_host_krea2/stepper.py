"""The lane's seat: one picture at a time, a slice of it in each pass."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from typing import Any

from golem_host.api import InternalError, Job, ModelFileError, RequestError
from golem_host_krea2.bar import Bar
from golem_host_krea2.drawing import draw
from golem_host_krea2.layer import SLICE_SECONDS
from golem_host_krea2.picture import PictureRequest, Stage

log = logging.getLogger("golem_host.krea2")


class PictureStepper:
    """Every method runs on the device thread."""

    def __init__(self, backend: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self._clock = clock
        self.pass_seconds: Callable[[], float] = lambda: SLICE_SECONDS
        """How long the next pass may take; the lane says so."""
        self._job: Job[PictureRequest] | None = None
        self._drawing: Generator[None, float | None, Any] | None = None
        self._bar: Bar | None = None
        self._begun = False

    def admit(self, job: Job[PictureRequest]) -> bool:
        if self._job is not None:
            return False
        self._job = job
        self._drawing = draw(self._backend, job.request, job.emit)
        self._bar = Bar(job.request)
        self._begun = False
        return True

    def step(self) -> str:
        """Go on for about a slice, by one piece at least."""
        assert self._job is not None and self._drawing is not None and self._bar is not None
        progress = self._job.request.progress
        until = self._clock() + min(SLICE_SECONDS, self.pass_seconds())
        try:
            if not self._begun:
                self._begun = True
                next(self._drawing)
            while (left := until - self._clock()) > 0:
                self._drawing.send(left)
        except StopIteration as done:
            job = self._job
            self._free(Stage.DONE)
            job.finish(done.value)
        except (RequestError, ModelFileError) as error:
            job = self._job
            self._free(Stage.FAILED)
            job.fail(error if isinstance(error, RequestError) else InternalError(str(error)))
        else:
            self._bar.show(progress)
        return f"{progress.id}: {progress.stage.value}, {round(100 * progress.fraction)} %"

    def release(self, job: Job[PictureRequest]) -> None:
        if job is self._job:
            self._free(Stage.FAILED)

    def recover(self) -> None:
        self._free(Stage.FAILED)

    def _free(self, stage: Stage) -> None:
        if self._drawing is not None:
            self._drawing.close()
        if self._job is not None:
            self._job.request.progress.stage = stage
        if self._bar is not None:
            self._bar.close(stage)
        self._job = self._drawing = self._bar = None
