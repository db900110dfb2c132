"""All checks in one class."""

from __future__ import annotations

from golem_host.testing.conformance.errors import ErrorChecks
from golem_host.testing.conformance.leaving import LeavingChecks
from golem_host.testing.conformance.light import LightChecks
from golem_host.testing.conformance.models import ModelChecks
from golem_host.testing.conformance.together import TogetherChecks


class PluginConformance(LightChecks, ErrorChecks, TogetherChecks, LeavingChecks, ModelChecks):
    """What every plugin has to pass; see `golem_host.testing.conformance` for how it is subclassed."""
