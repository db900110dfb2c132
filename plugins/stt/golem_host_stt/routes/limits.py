"""What a client of a live stream may do, whatever protocol it speaks."""

from __future__ import annotations

SILENT_SECONDS = 120.0
"""How long a client that holds a stream may send nothing."""
BUFFER_SECONDS = 60
"""Of audio that waits to be heard: a client that sends more is read no further until some of it was."""
SEND_SECONDS = 20.0
"""How long a client may take to take a message."""


class Left(Exception):
    """The client closed its socket, or does not take what is sent."""
