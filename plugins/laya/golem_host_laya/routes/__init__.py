"""The laya plugin's HTTP routes. Handlers load at app start: this module imports no torch and no web framework."""

from __future__ import annotations

from golem_host.api import Route

_HERE = "golem_host_laya.routes.systemone"

ROUTES: list[Route] = [
    Route(
        "POST",
        "/v1/systemone",
        f"{_HERE}:systemone",
        dialect="detail",
        summary="Typed decisions about a state: choice, score and noul questions (laya, TypeSafe Jev).",
    ),
    Route(
        "POST",
        "/v1/systemone/batch",
        f"{_HERE}:batch",
        dialect="detail",
        summary="The same questions about several states (laya).",
    ),
]
