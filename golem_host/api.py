"""What a plugin imports first. Everything here is public: names change only with a new hook version.

The heavier names (models, lanes, the host) are imported when they are first used, so that a plugin's light module stays
light; none of them imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from golem_host.config import Setting, Settings
from golem_host.errors import (
    BadRequest,
    ContextExceeded,
    Forbidden,
    GolemError,
    InternalError,
    ModelFileError,
    NotFound,
    NotSupported,
    OperatorError,
    Overloaded,
    PayloadTooLarge,
    PluginError,
    RequestError,
    Unauthorized,
    Unavailable,
    Unprocessable,
    UsageError,
)
from golem_host.hookspecs import API, DemoModel, Identified, Metric, Operation, Route, Workload, hookimpl, hookspec

if TYPE_CHECKING:
    from golem_host.derived import DerivedModel
    from golem_host.host import Host
    from golem_host.lanes.job import Job, JobCancelled
    from golem_host.lanes.lane import Lane
    from golem_host.lanes.oneshot import OneShotLane
    from golem_host.lanes.stepwise import Stepper, StepwiseLane
    from golem_host.layer import Layer
    from golem_host.plugins import PluginSet
    from golem_host.registry import Model, Runtime

__all__ = [
    "API",
    "BadRequest",
    "ContextExceeded",
    "DemoModel",
    "DerivedModel",
    "Forbidden",
    "GolemError",
    "Host",
    "Identified",
    "InternalError",
    "Job",
    "JobCancelled",
    "Lane",
    "Layer",
    "Metric",
    "Model",
    "ModelFileError",
    "NotFound",
    "NotSupported",
    "OneShotLane",
    "Operation",
    "OperatorError",
    "Overloaded",
    "PayloadTooLarge",
    "PluginError",
    "PluginSet",
    "RequestError",
    "Route",
    "Runtime",
    "Setting",
    "Settings",
    "Stepper",
    "StepwiseLane",
    "Unauthorized",
    "Unavailable",
    "Unprocessable",
    "UsageError",
    "Workload",
    "hookimpl",
    "hookspec",
]

_HOMES = {
    "DerivedModel": "golem_host.derived",
    "Host": "golem_host.host",
    "Job": "golem_host.lanes.job",
    "JobCancelled": "golem_host.lanes.job",
    "Lane": "golem_host.lanes.lane",
    "Layer": "golem_host.layer",
    "Model": "golem_host.registry",
    "OneShotLane": "golem_host.lanes.oneshot",
    "PluginSet": "golem_host.plugins",
    "Runtime": "golem_host.registry",
    "Stepper": "golem_host.lanes.stepwise",
    "StepwiseLane": "golem_host.lanes.stepwise",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
