"""A loaded Krea 2: its lane, its tokenizer, the files as they are now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golem_host.api import BadRequest, ContextExceeded, InternalError, Job, ModelFileError, StepwiseLane
from golem_host.config import show_size
from golem_host.digests import DigestCache
from golem_host.memory import available_bytes
from golem_host_krea2.board import Board
from golem_host_krea2.checkpoint import Opened
from golem_host_krea2.memory import peak_bytes
from golem_host_krea2.picture import MAX_TOKENS, PictureRequest
from golem_host_krea2.sampling import noise
from golem_host_krea2.stepper import PictureStepper
from golem_host_krea2.tokens import PromptTokens, Tokens
from golem_host_krea2.vae import SCALE

if TYPE_CHECKING:
    from golem_host.devices.device import Device
    from golem_host_krea2.model import Krea2Model

log = logging.getLogger("golem_host.krea2")

WEIGHT = 0.5
"""Share of the device beside a conversation's 1: its tokens then come at two thirds of the rate, not at half."""


class Krea2Runtime:
    """What routes need of a loaded model."""

    def __init__(
        self,
        model: Krea2Model,
        files: Opened,
        tokens: Tokens,
        device: Device,
        settings: Mapping[str, Any],
        progress: Callable[[float], None],
    ) -> None:
        self._files: Opened | None = files
        self._found, self._keep = files.found, bool(settings["krea2-keep"])
        self._backend = device.backend
        self._digests = DigestCache(Path(settings["model-folder"]) / "digests.json")
        self._tokens = tokens
        self.name = model.name
        self.board = Board()
        self._digest(files, progress)
        stepper = PictureStepper(device.backend)
        self.lane = lane = StepwiseLane(
            model.name, stepper, kind=model.kind, weight=WEIGHT, queue_limit=settings["queue"]
        )
        lane.background = True
        stepper.pass_seconds = lambda: lane.pass_seconds

    def request(
        self, prompt: str, negative: str | None, *, seed: int, width: int, height: int, **fields: Any
    ) -> PictureRequest:
        """What a job carries, its texts as tokens. Takes its time: not for the event loop.

        Raises ContextExceeded for a prompt of too many tokens, BadRequest for a picture that no memory is there for,
        and InternalError when files are gone.
        """
        files = self._current()
        texts = [self._prompt(prompt)] + ([] if negative is None else [self._prompt(negative)])
        request = PictureRequest(
            files,
            texts[0],
            texts[1] if len(texts) > 1 else None,
            width=width,
            height=height,
            seed=seed,
            # Here and not where it is drawn: the first one imports torch, for which the device has no time.
            noise=noise(seed, height // SCALE, width // SCALE),
            **fields,
        )
        return self._fitting(request)

    def submit(self, request: PictureRequest) -> Job[PictureRequest]:
        """Queue a request; its result is uint8 (height, width, 3). Raises what `Lane.submit` and `Board.add` raise."""
        self.board.add(request.progress)
        job = Job(request)
        self.lane.submit(job)
        return job

    def close(self) -> None:
        """Give the files back, and what is kept of them."""
        if self._files is not None:
            self._files.close()
            self._files = None

    def _digest(self, files: Opened, progress: Callable[[float], None] = lambda share: None) -> None:
        """sha256 of the three files: slow for those that were never looked at before."""
        for at, file in enumerate((files.dit, files.encoder, files.vae)):
            files.digests[file.path.name] = self._digests.of(file.path)
            progress((at + 1) / 3)

    def _prompt(self, text: str) -> PromptTokens:
        found = self._tokens.prompt(text)
        if len(found.ids) > MAX_TOKENS:
            raise ContextExceeded(len(found.ids), MAX_TOKENS)
        return found

    def _current(self) -> Opened:
        """The files, opened anew when others have taken their places."""
        if self._files is None:
            raise InternalError(f"{self.name} was unloaded")
        if not self._files.unchanged:
            try:
                files = Opened(self._found, keep=self._keep)
                files.check_tensors()
                self._digest(files)
            except ModelFileError as error:
                log.error("%s", error)
                place = Path(str(error.path)).name  # callers are not told where files are
                message = f"a file of '{self.name}' cannot be read any more: {place}: {error.message}"
                raise InternalError(message) from None
            self._files = files
        return self._files

    def _fitting(self, request: PictureRequest) -> PictureRequest:
        """The request, decoded in tiles where a whole decode would take more than there is."""
        free = available_bytes()
        needed = peak_bytes(self._backend, request)
        if free is not None and needed > free:
            request = replace(request, tiled=True)
            needed = peak_bytes(self._backend, request)
            if needed > free:
                raise BadRequest(
                    f"a picture of {request.width}x{request.height} takes {show_size(needed)} of memory and "
                    f"{show_size(free)} are free; ask for a smaller one",
                    param="size",
                )
        log.info(
            "%s: %dx%d, %d steps: at most %s of memory%s", request.progress.id, request.width, request.height,
            request.steps, show_size(needed), ", decoded in tiles" if request.tiled else "",
        )  # fmt: skip
        return request
