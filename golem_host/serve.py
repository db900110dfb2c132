"""`golem-host serve`: the listening socket, the server, start-up lines, signals, and an orderly end.

The server (granian) runs inside this process and this event loop, so that routes, lanes and device threads share one
process. The socket is bound before any model is loaded: a port that is taken is told at once, and until the models are
there every route answers that they are loading.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
import time
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.net import SocketHolder  # pyright: ignore[reportPrivateImportUsage]
from granian.server.embed import Server

from golem_host import logs
from golem_host.app import build_app
from golem_host.config import Address, Settings
from golem_host.errors import OperatorError
from golem_host.host import Host, model_line
from golem_host.plugins import PluginSet

log = logging.getLogger("golem_host")

BACKLOG = 2048
"""Connections the system holds while the event loop is busy."""

MAX_CONNECTIONS = 16384
"""Connections served at once; past it new ones wait in the backlog."""

IDLE_SECONDS = 75
"""How long a connection without a request stays open, and how long a request's headers may take."""


def serve(settings: Settings, plugins: PluginSet) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code. Raises OperatorError for what keeps it from starting."""
    logs.configure(settings["log-format"], settings["log-level"])
    host = Host(settings, plugins)
    listener = listen(settings["addr"])
    _raise_file_limit()
    return asyncio.run(_Run(host, listener).run())


def listen(address: Address) -> socket.socket:
    """A listening socket. OperatorError when the address cannot be had."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        # socket.create_server appends the address to the system's words.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise OperatorError(f"cannot listen on {address}: {reason}; choose another with --addr") from error


STALLED_SECONDS = 10
"""How long a host that stops waits for clients that neither send nor take anything."""


class _OnListener(Server):
    """Granian on a socket that is listening already."""

    def __init__(self, app: Any, listener: socket.socket) -> None:
        self._listener = listener
        super().__init__(
            app,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            backlog=BACKLOG,
            backpressure=MAX_CONNECTIONS,
            http1_settings=HTTP1Settings(header_read_timeout=IDLE_SECONDS * 1000),
            # Its notices are not ours to print; its errors go through the root logger.
            log_level=LogLevels.error,
            log_dictconfig={"loggers": {"_granian": {"propagate": True}}},
        )

    def _init_shared_socket(self) -> None:
        # From here on the descriptor is granian's, which closes it when it stops.
        # Its type stub knows no constructor; its own pickling calls this one: descriptor, Unix socket or not, backlog.
        self._shd = SocketHolder(self._listener.detach(), False, BACKLOG)  # pyright: ignore[reportCallIssue]
        self._sfd = self._shd.get_fd()


class _Run:
    """One run of the server, from bound socket to exit code."""

    def __init__(self, host: Host, listener: socket.socket) -> None:
        self.host = host
        self.address = Address(*listener.getsockname()[:2])
        self.url = f"http://{self.address}"
        self.server = _OnListener(build_app(host), listener)
        self.stopping: float | None = None
        """Since when (seconds of `time.monotonic`)."""

    async def run(self) -> int:
        self._on_signals(asyncio.get_running_loop())
        log.info("listening on %s", self.url)
        if not (self.host.settings["api-key"] or self.host.settings["api-key-file"]) and not self._is_loopback():
            log.warning("anyone who reaches this address may use it: set --api-key")
        serving = asyncio.create_task(self.server.serve())
        loading = asyncio.create_task(self.host.start())
        await asyncio.wait((serving, loading), return_when=asyncio.FIRST_COMPLETED)
        if not loading.done() or loading.exception() is not None:
            return await self._failed_start(serving, loading)
        for resident in self.host.registry.residents():
            _say(model_line(resident, self.host.settings))
        _say(f"Ready: {self.url}")
        all_ended = await self._ended(serving)
        # What a handler still does after its answer (reading the rest of a body) is cancelled now; that is no error.
        logging.getLogger("_granian").setLevel(logging.CRITICAL)
        await self.host.stop(drain=True)
        if self.stopping is None:
            raise OperatorError("the server ended by itself; the log above tells more")
        _say("Stopped.")
        if not all_ended:
            os._exit(0)  # the server's threads wait for those clients, and the event loop would wait for them
        return 0

    async def _ended(self, serving: asyncio.Task[None]) -> bool:
        """Wait until all requests have ended; False when only clients are left that do not let theirs end."""
        while not serving.done():
            await asyncio.wait({serving}, timeout=STALLED_SECONDS / 10)
            stalled = self.host.requests.stalled_since()
            if self.stopping is None or stalled is None:
                continue
            if time.monotonic() - max(stalled, self.stopping) > STALLED_SECONDS:
                log.warning(
                    "leaving clients behind that have neither sent nor taken anything for %g s", STALLED_SECONDS
                )
                return False
        await serving
        return True

    def _is_loopback(self) -> bool:
        return ipaddress.ip_address(self.address.host.partition("%")[0]).is_loopback

    async def _failed_start(self, serving: asyncio.Task[None], loading: asyncio.Task[None]) -> int:
        self.server.stop()
        await serving
        error = loading.exception() if loading.done() else None
        await self.host.stop(drain=False)
        raise error or OperatorError("the server ended by itself; the log above tells more")

    def _on_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                # Not signal.signal: the system may hand the signal to another thread, and only this wakes the loop
                # then.
                loop.add_signal_handler(number, self._signalled)
            except NotImplementedError:  # Windows
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._signalled))

    def _signalled(self) -> None:
        # A load cannot be taken back half-way, and a second signal means now: leave without waiting for any thread.
        if self.stopping is not None or self.host.started is None:
            _say("Stopped at once.")
            os._exit(0)
        self.stopping = time.monotonic()
        self.server.stop()
        _say("Stopping: answers that are running are finished first; once more to stop at once.")


def _say(line: str) -> None:
    """Print to whoever started the host; whoever read that may have left, which must not keep it from going on."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def _raise_file_limit() -> None:
    """Every connection is an open file; many systems start programs with a limit of 1024 and allow far more."""
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + 1024
    if soft != resource.RLIM_INFINITY and soft < wanted:
        new = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (new, hard))
