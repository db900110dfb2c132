"""`GET /metrics`: figures for Prometheus, of every lane and of what plugins count."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from litestar import Request, Response

from golem_host.errors import NotSupported
from golem_host.hookspecs import Metric, Route

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

    from golem_host.host import Host
    from golem_host.lanes.tally import Histogram
    from golem_host.registry import Resident

log = logging.getLogger("golem_host.http")

TEXT_FORMAT = "text/plain; version=0.0.4"


async def metrics(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """All figures in Prometheus' text format."""
    if not host.settings["metrics"]:
        raise NotSupported("This server does not support metrics endpoint. Start it without `--no-metrics`")
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(host))
    started = {} if host.started is None else {"Process-Start-Time-Unix": str(int(host.started))}
    return Response(generate_latest(registry), headers=started, media_type=TEXT_FORMAT)


class _Families:
    """What the library's registry asks for its families: a new one for each scrape."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def collect(self) -> Iterator[Family]:
        residents = self._host.registry.all_residents()
        yield from map(_family, (*_of_host(self._host), *_of_lanes(residents)))
        yield from _histograms(residents)
        yield from _of_plugins(self._host)


def _of_host(host: Host) -> list[Metric]:
    return [
        Metric("golem_build_info", "gauge", "The host's version", [({"version": host.version}, 1)]),
        Metric(
            "golem_http_requests_in_progress",
            "gauge",
            "HTTP requests that have not ended, this one included",
            [({}, host.requests.in_progress)],
        ),
    ]


def _of_lanes(residents: list[Resident]) -> list[Metric]:
    states = [(resident, resident.runtime.lane.state() if resident.runtime else {}) for resident in residents]
    return [
        Metric(
            "golem_model_loaded",
            "gauge",
            "Whether the model is in memory",
            [(_labels(each), each.runtime is not None) for each in residents],
        ),
        Metric(
            "golem_lane_requests_waiting",
            "gauge",
            "Requests in the model's queue",
            [(_labels(each), state.get("queued", 0)) for each, state in states],
        ),
        Metric(
            "golem_lane_requests_running",
            "gauge",
            "Requests that passes have begun",
            [(_labels(each), state.get("running", 0)) for each, state in states],
        ),
        Metric(
            "golem_lane_requests_refused_total",
            "counter",
            "Requests that found the queue full",
            [(_labels(each), each.tally.refused) for each in residents],
        ),
        Metric(
            "golem_lane_passes_failed_total",
            "counter",
            "Passes that failed",
            [(_labels(each), each.tally.failed_passes) for each in residents],
        ),
    ]


def _of_plugins(host: Host) -> Iterator[Family]:
    for name in host.plugins.names:
        try:
            families = [
                _family(metric) for answer in host.plugins.ask(name, "golem_metrics", host=host) for metric in answer
            ]
        except Exception as error:
            log.error("no figures of plugin %s: %s", name, error)
        else:
            yield from families


def _family(metric: Metric) -> Family:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    make = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}[metric.kind]
    family = make(metric.name, metric.help)
    for labels, value in metric.samples:
        family.add_sample(metric.name, dict(labels), value)
    return family


def _histograms(residents: list[Resident]) -> Iterator[Family]:
    from prometheus_client.metrics_core import HistogramMetricFamily

    for name, text in (
        ("wait_seconds", "From a request's arrival in the queue to its first pass"),
        ("pass_seconds", "Time of a pass"),
        ("pass_requests", "Requests that shared a pass"),
    ):
        family = HistogramMetricFamily(f"golem_lane_{name}", text, labels=("model", "kind"))
        for resident in residents:
            histogram: Histogram = getattr(resident.tally, name)
            bounds = [*map(str, histogram.bounds), "+Inf"]
            buckets = list(zip(bounds, histogram.cumulative(), strict=True))
            family.add_metric(tuple(_labels(resident).values()), buckets, histogram.sum)
        yield family


def _labels(resident: Resident) -> dict[str, str]:
    return {"model": resident.model.name, "kind": resident.model.kind}


ROUTES = (Route("GET", "/metrics", metrics, dialect="llama", summary="Figures for Prometheus"),)
