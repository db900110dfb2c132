"""The embed plugin's HTTP routes. Handlers load at app start: this module imports no torch and no web framework."""

from __future__ import annotations

from golem_host.api import Route

_HERE = "golem_host_embed.routes"
_RERANK = "Score documents against a query (Jina's shape, or TEI's)."
_NATIVE = "Vectors of texts in llama-server's own shape."

ROUTES: list[Route] = [
    Route(
        "POST",
        "/v1/embeddings",
        f"{_HERE}.openai_embeddings:embeddings",
        dialect="openai",
        summary="Unit vectors of texts (OpenAI), as numbers or base64.",
    ),
    Route(
        "POST",
        "/api/embed",
        f"{_HERE}.ollama_embed:embed",
        dialect="ollama",
        summary="Unit vectors of texts (Ollama); without a text it loads or unloads the model.",
    ),
    Route(
        "POST",
        "/api/embeddings",
        f"{_HERE}.ollama_embed:embeddings",
        dialect="ollama",
        summary="The vector of one text, not normalised (Ollama's older route).",
    ),
    *(
        Route("POST", path, f"{_HERE}.llama_embeddings:embedding", dialect="llama", summary=_NATIVE)
        for path in ("/embedding", "/embeddings")
    ),
    *(
        Route("POST", path, f"{_HERE}.rerank:rerank", dialect="llama", summary=_RERANK)
        for path in ("/v1/rerank", "/v1/reranking", "/rerank", "/reranking")
    ),
]
