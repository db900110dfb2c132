"""The krea2 plugin's HTTP routes. Handlers load at app start: this module imports no torch and no web framework."""

from __future__ import annotations

from golem_host.api import Route

ROUTES: list[Route] = [
    Route(
        "POST",
        "/v1/images/generations",
        "golem_host_krea2.routes.generations:generations",
        dialect="openai",
        summary="A picture from a prompt, whole or with previews on the way (OpenAI).",
    ),
    Route(
        "GET",
        "/v1/images/progress/{id:str}",
        "golem_host_krea2.routes.progress:progress",
        dialect="openai",
        summary="How far a picture is.",
    ),
]
