"""Work on a request's text that may take long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from litestar import Request

INLINE_BYTES = 8192
"""Up to this body size rendering and tokenizing take about as long as handing them to a thread."""

Result = TypeVar("Result")


async def off_loop(request: Request[Any, Any, Any], work: Callable[[], Result], *, long: bool = False) -> Result:
    """Run `work`, on another thread when the request is long or the work is (`long`), so that other requests go on
    meanwhile.
    """
    if not long and len(await request.body()) <= INLINE_BYTES:
        return work()
    return await asyncio.to_thread(work)
