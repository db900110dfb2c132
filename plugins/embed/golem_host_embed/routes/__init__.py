"""The embed plugin's HTTP routes. Handlers load at app start: this module imports no torch and no web framework."""

from __future__ import annotations

from golem_host.api import Route

ROUTES: list[Route] = []
