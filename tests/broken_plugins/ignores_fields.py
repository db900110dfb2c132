"""Takes any field and does nothing with it."""

from typing import Any

from broken_plugins.spelling import hooks


async def generous(request: Any, host: Any) -> Any:
    from broken_plugins.routes import spelt
    from golem_host.api import Fields, read_json

    return await spelt(request, host, Fields(await read_json(request)))


globals().update(hooks("ignores_fields", handler="broken_plugins.ignores_fields:generous"))
