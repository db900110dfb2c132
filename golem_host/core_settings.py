"""The host's own settings: listener, devices, queues, residency, logs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from golem_host.parsers import Address, address, boolean, choice, device, integer, keep_alive, listing, path, size, text
from golem_host.setting import Setting


def physical_cores() -> int:
    """the physical cores this process may use"""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # macOS, Windows
        return max(1, os.cpu_count() or 1)
    cores = set()
    for cpu in allowed:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            cores.add((topology / "thread_siblings_list").read_text())
        except OSError:
            cores.add(f"cpu{cpu}")
    return max(1, len(cores))


def cache_folder() -> Path:
    """golem-host in the user's cache folder"""
    home = Path.home()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(base) / "golem-host"


CORE: tuple[Setting, ...] = (
    Setting("enable", listing, (), "Plugins to load, by entry-point name.", repeatable=True, metavar="A,B"),
    Setting(
        "demo",
        boolean,
        False,
        "Serve small real models, fetched on first use; enables the plugins that have one unless --enable says "
        "otherwise.",
        is_flag=True,
    ),
    Setting("config", path, None, "Settings file (TOML).", metavar="FILE"),
    Setting(
        "addr",
        address,
        Address("127.0.0.1", 8080),
        "Address to listen on; port 0 picks a free one.",
        metavar="HOST:PORT",
    ),
    Setting(
        "model-folder",
        path,
        cache_folder,
        "Where fetched models are kept and models are looked for.",
        env=("GOLEM_HOME",),
        metavar="DIR",
    ),
    Setting(
        "device",
        device,
        "cpu",
        "Device that computes, for plugins without a device of their own; golem-host devices lists them.",
        metavar="cpu|vulkan[:N|:UUID]",
    ),
    Setting("threads", integer(1, 1024), physical_cores, "Compute threads of the CPU device.", metavar="N"),
    Setting(
        "repack",
        boolean,
        True,
        "Re-lay weights in memory when a model is loaded, which computes faster; off, they are read from the mapped "
        "file, whose pages other processes share.",
        is_flag=True,
    ),
    Setting(
        "queue", integer(1, 1_000_000), 512, "Waiting requests per model; past it 503 with Retry-After.", metavar="N"
    ),
    Setting(
        "keep-alive",
        keep_alive,
        None,
        "How long an unused model stays loaded when a request does not say; negative: for ever.",
        metavar="DURATION",
    ),
    Setting(
        "any-model",
        boolean,
        True,
        "Where one model of a kind is served, take any model name in a request.",
        is_flag=True,
    ),
    Setting(
        "api-key",
        text,
        (),
        "Key that requests must carry as a bearer token; health routes stay open.",
        repeatable=True,
        metavar="KEY",
        secret=True,
    ),
    Setting("api-key-file", path, None, "File with one API key per line.", metavar="FILE"),
    Setting(
        "allow-host",
        listing,
        (),
        "Further names that the Host header may have (the loopback names and this machine's own always may).",
        repeatable=True,
        metavar="NAME",
    ),
    Setting(
        "cors-origin",
        listing,
        (),
        "Further origins that browsers may call from (loopback origins always may).",
        repeatable=True,
        metavar="ORIGIN",
    ),
    Setting("max-body", size, 256 * 2**20, "Largest request body.", metavar="SIZE"),
    Setting(
        "listener",
        choice("default", "strict"),
        "default",
        "Listener policy; strict also refuses chunked bodies, bodies over 16 MiB, types other than JSON and more than "
        "32 connections.",
        metavar="default|strict",
    ),
    Setting("metrics", boolean, True, "Tell figures for Prometheus at /metrics.", is_flag=True),
    Setting("log-format", choice("text", "json"), "text", "Form of the request lines.", metavar="text|json"),
    Setting(
        "log-level",
        choice("debug", "info", "warning", "error"),
        "info",
        "Least severe messages that are logged.",
        metavar="debug|info|warning|error",
    ),
    Setting(
        "debug-batches",
        boolean,
        False,
        "Log one line per pass: lane, what went in, columns, milliseconds.",
        is_flag=True,
    ),
)
