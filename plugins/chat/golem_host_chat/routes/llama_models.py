"""Which chat model llama-server's routes mean whose body need not name one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from litestar import Request

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host.registry import Model
    from golem_host_chat.model import ChatModel


def asked_model(request: Request[Any, Any, Any], host: Host, named: str | None = None) -> Model:
    """The model `named` in a body, else the query's, else the only one there is. Raises `BadRequest` or `NotFound`."""
    return host.registry.resolve(named or request.query_params.get("model"), "chat")


def asked_base(request: Request[Any, Any, Any], host: Host, named: str | None = None) -> ChatModel:
    """The same, or what it is derived from: they share their slots."""
    model = asked_model(request, host, named)
    return cast("ChatModel", model.base or model)
