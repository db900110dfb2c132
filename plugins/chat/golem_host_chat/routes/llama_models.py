"""Which chat model llama-server's routes without a body mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from litestar import Request

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host.registry import Model
    from golem_host_chat.model import ChatModel


def asked_model(request: Request[Any, Any, Any], host: Host) -> Model:
    """The model of the query's `model`, or the only one there is. Raises `BadRequest` or `NotFound`."""
    return host.registry.resolve(request.query_params.get("model"), "chat")


def asked_base(request: Request[Any, Any, Any], host: Host) -> ChatModel:
    """The same, or what it is derived from: they share their slots."""
    model = asked_model(request, host)
    return cast("ChatModel", model.base or model)
