"""The `stop` field: a string or a list of strings at which an answer ends."""

from __future__ import annotations

from golem_host.http.fields import Fields, kind_of

MAX_STOPS = 64
MAX_STOP_CHARACTERS = 1024
"""Each token drawn is compared with every stop string on the thread that serves all conversations."""


def stop_strings(fields: Fields) -> tuple[str, ...]:
    """The stop strings, empty ones left out. Raises `BadRequest` for another type, too many, or one too long."""
    value = fields.value("stop")
    if value is None:
        return ()
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise fields.fault("stop", f"expected a string or an array of strings, got {kind_of(value)}")
    for index, stop in enumerate(value):
        if not isinstance(stop, str):
            raise fields.fault("stop", f"expected strings, got {kind_of(stop)} at place {index}")
        if len(stop) > MAX_STOP_CHARACTERS:
            raise fields.fault("stop", f"the string at place {index} is longer than {MAX_STOP_CHARACTERS} characters")
    if len(value) > MAX_STOPS:
        raise fields.fault("stop", f"{len(value)} strings are given; at most {MAX_STOPS} are taken")
    return tuple(stop for stop in value if stop)
