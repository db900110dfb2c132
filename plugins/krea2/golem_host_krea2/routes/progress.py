"""`GET /v1/images/progress/{id}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from litestar import Request

from golem_host.errors import NotFound
from golem_host_krea2.model import KIND

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_krea2.runtime import Krea2Runtime


async def progress(request: Request[Any, Any, Any], host: Host) -> dict[str, Any]:
    """How far the picture is whose `progress_id` the path names."""
    id: str = request.path_params["id"]
    for resident in host.registry.residents():
        if resident.model.kind == KIND and (found := cast("Krea2Runtime", resident.runtime).board.find(id)):
            return {
                "id": found.id,
                "status": found.stage.name.lower(),
                "step": found.step,
                "steps": found.steps,
                "fraction": round(found.fraction, 4),
            }
    raise NotFound(f"no picture has the id {id[:64]!r}: give 'progress_id' when you ask for one", code="not_found")
