"""The Host check: a web page cannot reach the host through a name of its own that resolves here (DNS rebinding)."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from golem_host.errors import Forbidden

_HOST = re.compile(r"(\[[0-9A-Fa-f:.%\w]{2,64}\]|[\w.-]{1,255})(?::[0-9]{0,5})?", re.ASCII)

STRICT_NAMES = ("127.0.0.1", "localhost", "::1")
"""All that the strict listener takes."""


class HostRule:
    """Which Host headers are served.

    Always: `localhost`, `*.localhost`, loopback addresses, this machine's own name, and `allowed`: names, `*.suffix` or
    `*`. Bound to an address that is not loopback, every other IP address too: that is how a machine is called from its
    network, through port forwarding or from a container, and a rebinding attack always comes with a name.
    """

    def __init__(self, bind: str, allowed: Iterable[str] = ()) -> None:
        self._any_address = not is_loopback(bind)
        self._names = {name.lower().rstrip(".") for name in (bind, *own_names(), *allowed)}
        self._suffixes = tuple(name[1:] for name in self._names if name.startswith("*."))

    def check(self, header: str) -> None:
        """Raise Forbidden for a Host header that is not served."""
        name = host_name(header)
        if name is None or not self._served(name):
            raise _refused(header)

    def _served(self, name: str) -> bool:
        if is_loopback(name) or name in self._names or "*" in self._names:
            return True
        return name.endswith(self._suffixes) or (self._any_address and _address(name) is not None)


class StrictHostRule:
    """The strict listener's: 127.0.0.1, localhost and [::1] only, and `allowed` names."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._names = {*STRICT_NAMES, *(name.lower() for name in allowed)}

    def check(self, header: str) -> None:
        """Raise Forbidden for a Host header that is not served."""
        if host_name(header) not in self._names:
            raise _refused(header)


def host_name(header: str) -> str | None:
    """The name or address of a Host header in lower case, without port and brackets; None when it is malformed."""
    match = _HOST.fullmatch(header.strip())
    return match[1].strip("[]").lower().removesuffix(".") if match else None


def is_loopback(name: str) -> bool:
    """Whether a name or address can only mean this machine."""
    address = _address(name)
    if address is not None:
        return address.is_loopback
    return name == "localhost" or name.endswith(".localhost")


def own_names() -> set[str]:
    """This machine's name, whole, short, and as its network announces it (`name.local`)."""
    name = socket.gethostname().lower()
    short = name.partition(".")[0]
    return {name, short, f"{short}.local"} if short else set()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _refused(header: str) -> Forbidden:
    shown = host_name(header) or header
    return Forbidden(f"Host '{shown[:100]}' is not served here; if it should be, start the host with --allow-host NAME")
