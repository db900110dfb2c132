"""Computes on the event loop, now and then: every fourth request stops all others."""

import itertools
import time
from typing import Any

from broken_plugins.spelling import hooks

_requests = itertools.count(1)


async def blocking(request: Any, host: Any) -> Any:
    from broken_plugins.routes import spell

    if next(_requests) % 4 == 0:
        time.sleep(0.4)
    return await spell(request, host)


globals().update(hooks("blocks_the_loop", handler="broken_plugins.blocks_the_loop:blocking"))
