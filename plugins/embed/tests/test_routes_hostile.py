"""Whatever a body holds, the answer is an answer or a 4xx, and the next request is served."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golem_host.http.ollama_options import KNOWN
from golem_host_embed.routes import ROUTES
from scripted_embed import Served, serving

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.sampled_from([2**31, 2**63, 2**64, 10**400, -(2**40)])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(["5m", "\ud800", "[CLS]", "base64", "float", "scripted", "ranker", "talker", "hello " * 40])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.text(max_size=12) | st.lists(st.text(max_size=12), max_size=4) | VALUES
BODIES = st.fixed_dictionaries(
    {},
    optional={
        **{name: TEXTS for name in ("input", "content", "prompt", "documents", "texts", "query")},
        **{name: VALUES for name in ("encoding_format", "dimensions", "embd_normalize", "top_n", "truncate", "user")},
        **{name: VALUES for name in ("keep_alive", "return_documents", "return_text")},
        "model": st.sampled_from(["scripted", "ranker", "talker", "other", ""]) | VALUES,
        "options": st.dictionaries(st.sampled_from(sorted(KNOWN)) | st.text(max_size=3), SCALARS, max_size=3) | VALUES,
    },
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Served]]:
    """One host, and the loop that runs it, for all examples."""
    serves = serving(tmp_path_factory.mktemp("hostile"))
    with asyncio.Runner() as loop:
        served = loop.run(serves.__aenter__())
        try:
            yield loop, served
        finally:
            loop.run(serves.__aexit__(None, None, None))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(bodies=st.lists(st.tuples(st.sampled_from(ROUTES), BODIES), min_size=8, max_size=16))
def test_no_body_makes_a_500(host: tuple[asyncio.Runner, Served], bodies: list[tuple[Any, dict[str, Any]]]) -> None:
    loop, served = host

    async def scenario() -> None:
        for route, body in bodies:
            answer = await served.client.post(route.path, content=json.dumps(body).encode())
            assert answer.status_code < 500, (route.path, body, answer.text)
            answer.json()
            good = await served.post("/v1/embeddings", input="hello", model="scripted")
            assert good.status_code == 200

    loop.run(scenario())
