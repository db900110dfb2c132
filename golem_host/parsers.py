"""Parsers of settings: one piece of text becomes a value, or `ValueError` says what is wrong and what is expected."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from golem_host.errors import ModelFileError


@dataclass(frozen=True)
class NamedPath:
    """`[NAME=]PATH`: a file or directory and the name it is served under, if one was given."""

    name: str | None
    path: Path
    written: Path | None = field(default=None, compare=False)
    """The path as a settings file has it, where `path` is relative to that file."""

    def __str__(self) -> str:
        return f"{self.name}={self.path}" if self.name else str(self.path)

    def find(self, folder: Path, *, directories: bool = False) -> Path:
        """The path itself, or what has that name in the model folder, with or without `.gguf`.

        Without `directories` only files count. Raises ModelFileError for a plain name that neither place has; any
        other path that leads nowhere is returned as it is, for whoever opens it to say why it cannot be.
        """
        written = self.written or self.path
        for place in (self.path, folder / written, folder / f"{written}.gguf"):
            if place.is_file() or (directories and place.is_dir()):
                return place
        if len(written.parts) == 1 and not self.path.exists():
            raise ModelFileError(
                written, f"neither here nor in the model folder {folder}; golem-host models lists what is there"
            )
        return self.path


class Address(NamedTuple):
    """`HOST:PORT`; `host` has no brackets, port 0 means that the system picks one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def integer(minimum: int | None = None, maximum: int | None = None) -> Callable[[str], int]:
    """A whole number within bounds, both inclusive."""

    def parse(value: str) -> int:
        # int() alone would take "1_000" and other scripts' digits.
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()):
            raise ValueError(f"expected a whole number{_bounds(minimum, maximum)}, got {value!r}")
        number = int(value)
        if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
            raise ValueError(f"expected a whole number{_bounds(minimum, maximum)}, got {number}")
        return number

    return parse


def number(minimum: float | None = None, maximum: float | None = None) -> Callable[[str], float]:
    """A finite number within bounds, both inclusive."""

    def parse(value: str) -> float:
        if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", value.strip(), re.ASCII):
            raise ValueError(f"expected a number{_bounds(minimum, maximum)}, got {value!r}")
        result = float(value)
        if not math.isfinite(result):
            raise ValueError(f"expected a finite number, got {value!r}")
        if (minimum is not None and result < minimum) or (maximum is not None and result > maximum):
            raise ValueError(f"expected a number{_bounds(minimum, maximum)}, got {value!r}")
        return result

    return parse


def _bounds(minimum: float | None, maximum: float | None) -> str:
    if minimum is not None and maximum is not None:
        return f" from {minimum} to {maximum}"
    if minimum is not None:
        return f" of at least {minimum}"
    if maximum is not None:
        return f" of at most {maximum}"
    return ""


def boolean(value: str) -> bool:
    """true/false, yes/no, on/off, 1/0."""
    word = value.strip().lower()
    if word in ("true", "yes", "on", "1"):
        return True
    if word in ("false", "no", "off", "0"):
        return False
    raise ValueError(f"expected true or false, got {value!r}")


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def signed_duration(value: str) -> float:
    """Seconds from a plain number of them or a duration as Go writes it (`300ms`, `1h30m`), possibly negative."""
    body = value.strip()
    sign = -1.0 if body.startswith("-") else 1.0
    body = body[1:] if body[:1] in ("-", "+") else body
    seconds = None
    if re.fullmatch(r"\d+\.?\d*|\.\d+", body, re.ASCII):
        seconds = float(body)
    elif body and not _DURATION.sub("", body):
        seconds = sum(float(amount) * _UNITS[unit] for amount, unit in _DURATION.findall(body))
    if seconds is None or seconds > 1e9:
        raise ValueError(f"expected a duration such as 90s, 5m or 1h30m, got {value!r}")
    return sign * seconds


def duration(value: str) -> float:
    """Seconds, not negative; see `signed_duration`."""
    seconds = signed_duration(value)
    if seconds < 0:
        raise ValueError(f"expected a duration that is not negative, got {value!r}")
    return seconds


def keep_alive(value: str) -> float | None:
    """Seconds, or None (for ever) for any negative duration; see `signed_duration`."""
    seconds = signed_duration(value)
    return None if seconds < 0 else seconds


_SIZES = {
    "": 1, "b": 1,
    "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip


def size(value: str) -> int:
    """Bytes from `4096`, `256MiB`, `256M` (binary, as MiB) or `1.5GB` (decimal); more than 0."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([a-z]*)", value.strip().lower(), re.ASCII)
    if match is None or match[2] not in _SIZES or int(float(match[1]) * _SIZES[match[2]]) < 1:
        raise ValueError(f"expected a size such as 256MiB or 4GB, got {value!r}")
    return int(float(match[1]) * _SIZES[match[2]])


def show_duration(seconds: float) -> str:
    """`5m`, `90s`, `250ms`: the largest unit that divides it."""
    for unit in ("h", "m", "s"):
        if seconds and seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:g}{unit}"
    return f"{seconds * 1000:g}ms" if 0 < seconds < 1 else f"{seconds:g}s"


def show_size(size_bytes: int) -> str:
    """`256 MiB`, `94.5 MiB`."""
    amount = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TiB"


def choice(*words: str) -> Callable[[str], str]:
    """One of `words`, in any case."""

    def parse(value: str) -> str:
        word = value.strip().lower()
        if word not in words:
            raise ValueError(f"expected {_either(words)}, got {value!r}{nearest(word, words)}")
        return word

    return parse


def _either(words: Sequence[str]) -> str:
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]


def device(value: str) -> str:
    """`cpu`, `vulkan`, or `vulkan:` and a device's index or UUID, which loses its hyphens."""
    name = value.strip().lower()
    kind, colon, which = name.partition(":")
    if name in ("cpu", "vulkan"):
        return name
    if kind == "vulkan" and colon:
        uuid = which.replace("-", "")
        if re.fullmatch(r"[0-9]{1,4}", which):
            return f"vulkan:{int(which)}"
        if re.fullmatch(r"[0-9a-f]{32}", uuid):
            return f"vulkan:{uuid}"
    raise ValueError(
        f"expected cpu, vulkan, vulkan:INDEX or vulkan:UUID (golem-host devices lists them), got {value!r}"
    )


def text(value: str) -> str:
    """Any text that is not empty."""
    if not value.strip():
        raise ValueError("expected a text, got nothing")
    return value


def path(value: str) -> Path:
    """A path; `~` is the user's home. Whether it exists is for whoever opens it to say."""
    if not value.strip() or "\0" in value:
        raise ValueError(f"expected a path, got {value!r}")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{value!r}: {error}") from None


def named_path(value: str) -> NamedPath:
    """`PATH` or `NAME=PATH`. A `=` counts only after a name without slashes; `./a=b` is a path."""
    name, equals, rest = value.partition("=")
    if not equals or "/" in name or "\\" in name:
        return NamedPath(None, path(value))
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}", name):
        raise ValueError(
            f"expected NAME=PATH where NAME has letters, digits and . _ : @ + - only, got {value!r} "
            "(write ./ before a file whose own name has an equals sign)"
        )
    return NamedPath(name, path(rest))


def address(value: str) -> Address:
    """`HOST:PORT`, `[IPv6]:PORT`."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})", value.strip(), re.ASCII)
    if match is None or int(match[3]) > 65535:
        raise ValueError(f"expected HOST:PORT such as 127.0.0.1:8080 or [::1]:8080, got {value!r}")
    return Address(match[1] or match[2], int(match[3]))


def listing(value: str) -> tuple[str, ...]:
    """Words separated by commas."""
    words = tuple(word.strip() for word in value.split(","))
    if not all(words):
        raise ValueError(f"expected words separated by commas, got {value!r}")
    return words


def nearest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)``, or nothing when no known word is near."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean {matches[0]!r}?)" if matches else ""
