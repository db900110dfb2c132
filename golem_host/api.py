"""What a plugin imports first. Everything here is public: names change only with a new hook version.

The heavier names (models, lanes, the host, what answers requests) are imported when they are first used: a plugin's
light module imports them inside its functions and stays light. None of them imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from golem_host.config import Setting, Settings
from golem_host.deprecation import old_names
from golem_host.errors import (
    BadRequest,
    ContextExceeded,
    DeviceFailed,
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
    UnsupportedMediaType,
    UsageError,
)
from golem_host.hookspecs import API, DemoModel, Identified, Metric, Operation, Route, Workload, hookimpl, hookspec
from golem_host.http.body import read_json
from golem_host.http.fields import Fields

if TYPE_CHECKING:
    from golem_host.derived import DerivedModel
    from golem_host.devices.device import Device
    from golem_host.host import Host
    from golem_host.http.disconnect import result_or_disconnect
    from golem_host.http.form import Form, read_form
    from golem_host.http.keep_alive import parse_keep_alive
    from golem_host.http.off_loop import off_loop
    from golem_host.http.requestlog import log_note
    from golem_host.http.streams import SSE_DONE, stream_reply
    from golem_host.http.writing import json_response, text_response
    from golem_host.lanes.job import Job, JobCancelled
    from golem_host.lanes.lane import Lane
    from golem_host.lanes.oneshot import OneShotLane, Part
    from golem_host.lanes.stepwise import Stepper, StepwiseLane
    from golem_host.layer import Layer
    from golem_host.plugins import PluginSet
    from golem_host.registry import Model, Runtime

__all__ = [
    "API",
    "SSE_DONE",
    "BadRequest",
    "ContextExceeded",
    "DemoModel",
    "DerivedModel",
    "Device",
    "DeviceFailed",
    "Fields",
    "Forbidden",
    "Form",
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
    "Part",
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
    "UnsupportedMediaType",
    "UsageError",
    "Workload",
    "hookimpl",
    "hookspec",
    "json_response",
    "log_note",
    "off_loop",
    "parse_keep_alive",
    "read_form",
    "read_json",
    "result_or_disconnect",
    "stream_reply",
    "text_response",
]

_HOMES = {
    "SSE_DONE": "golem_host.http.streams",
    "DerivedModel": "golem_host.derived",
    "Device": "golem_host.devices.device",
    "Form": "golem_host.http.form",
    "Host": "golem_host.host",
    "Job": "golem_host.lanes.job",
    "JobCancelled": "golem_host.lanes.job",
    "Lane": "golem_host.lanes.lane",
    "Layer": "golem_host.layer",
    "Model": "golem_host.registry",
    "OneShotLane": "golem_host.lanes.oneshot",
    "Part": "golem_host.lanes.oneshot",
    "PluginSet": "golem_host.plugins",
    "Runtime": "golem_host.registry",
    "Stepper": "golem_host.lanes.stepwise",
    "StepwiseLane": "golem_host.lanes.stepwise",
    "json_response": "golem_host.http.writing",
    "log_note": "golem_host.http.requestlog",
    "off_loop": "golem_host.http.off_loop",
    "parse_keep_alive": "golem_host.http.keep_alive",
    "read_form": "golem_host.http.form",
    "result_or_disconnect": "golem_host.http.disconnect",
    "stream_reply": "golem_host.http.streams",
    "text_response": "golem_host.http.writing",
}


_old_name = old_names(__name__, {})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        return _old_name(name)
    return getattr(importlib.import_module(_HOMES[name]), name)
