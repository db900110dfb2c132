"""The text of one answer as tokens are drawn: what may leave now, with the tokens it came from, and when it is over."""

from __future__ import annotations

from golem_host.text.stream import TextStream
from golem_host_chat.generation import Delta, DrawnToken, Generation
from golem_host_chat.indentation import Indentation
from golem_host_chat.likelihoods import Likelihood


class AnswerText:
    """`limit` is the most tokens there may be."""

    def __init__(self, request: Generation, limit: int) -> None:
        self._limit = limit
        self._extras = request.extras
        self._stream = TextStream(request.stops)
        self._indentation = Indentation(request.extras.indent)
        self._complete = None if request.complete is None else request.complete()
        self._texts: list[str] = []
        self.drawn: list[int] = []
        """The ids so far, the end token included."""
        self.told: list[DrawnToken] = []
        """With probabilities: the tokens so far but those that left a character unfinished."""
        self._untold = ""
        """Text that no token of `told` carries yet."""
        self._raw = b""
        """The bytes of that text and of what is held back."""
        self._unsent: list[DrawnToken] = []
        self._unsent_ids: list[int] = []
        self.finish: str | None = None
        """How the answer ended: `stop` or `length`."""

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def stop_word(self) -> str | None:
        return self._stream.stopped

    def push(
        self,
        token: int,
        piece: bytes | None,
        likelihood: Likelihood | None = None,
        *,
        whole: bool = False,
        milliseconds: float = 0.0,
    ) -> Delta | None:
        """Take in the next token, which adds `piece` to the text (None: it ends the answer); returns what leaves now.

        The answer ends with a token that makes it `whole`. `milliseconds` have passed since the first token.
        """
        self.drawn.append(token)
        text = self._advance(piece, whole, milliseconds)
        if text:
            self._texts.append(text)
        self._untold += text
        self._raw += piece or b""
        self._unsent_ids.append(token)
        if likelihood is not None and (self.finish is not None or not self._stream.incomplete):
            raw = _bytes_of(self._untold, self._raw)
            self._raw = self._raw[len(raw) :]
            entry = DrawnToken(token, self._untold, raw, likelihood)
            self.told.append(entry)
            self._unsent.append(entry)
        elif likelihood is not None:
            return None
        return self._delta()

    def _delta(self) -> Delta | None:
        over = self.finish is not None
        if self.stop_word is not None:
            while self._unsent and not self._unsent[-1].text:  # it is the stop string
                self._unsent.pop()
                self.told.pop()
        wanted = self._untold or (over and (self._unsent or self._extras.ids))
        if not wanted:
            return None
        delta = Delta(self._untold, tuple(self._unsent), tuple(self._unsent_ids))
        self._untold, self._unsent, self._unsent_ids = "", [], []
        return delta

    def _advance(self, piece: bytes | None, whole: bool, milliseconds: float) -> str:
        """The text that a token lets leave; sets `finish`."""
        if piece is None:
            self.finish = "stop"
            return self._indented(self._stream.finish())
        text = self._indented(self._stream.push(piece))
        if self.finish is not None:
            return text
        if self._stream.stopped is not None or (self._complete is not None and self._complete(text)):
            self.finish = "stop"
            return text
        if whole:
            self.finish = "stop"
            return text + self._indented(self._stream.finish())
        late = self._extras.milliseconds > 0 and milliseconds > self._extras.milliseconds
        if len(self.drawn) >= self._limit or (late and "\n" in text):
            self.finish = "length"
            return text + self._indented(self._stream.finish())
        return text

    def _indented(self, text: str) -> str:
        if not self._extras.indent or self._indentation.broken:
            return "" if self._indentation.broken else text
        text = self._indentation.push(text)
        if self._indentation.broken:
            self.finish = "length"
        return text


def _bytes_of(text: str, raw: bytes) -> bytes:
    """The beginning of `raw` that decodes to `text`, U+FFFD standing for what is no UTF-8."""
    if "\ufffd" not in text:
        return text.encode()
    ends = range(len(raw), 0, -1)
    return next((raw[:end] for end in ends if raw[:end].decode("utf-8", "replace") == text), text.encode())
