"""Routes of the APIs this host speaks that only a plugin can serve: who asks for one is told which plugin it takes."""

from __future__ import annotations

PLUGIN_OF = {
    "/v1/chat/completions": "chat",
    "/chat/completions": "chat",
    "/v1/chat/completions/control": "chat",
    "/v1/chat/completions/input_tokens": "chat",
    "/chat/completions/input_tokens": "chat",
    "/v1/completions": "chat",
    "/completion": "chat",
    "/completions": "chat",
    "/infill": "chat",
    "/apply-template": "chat",
    "/tokenize": "chat",
    "/detokenize": "chat",
    "/props": "chat",
    "/v1/responses": "chat",
    "/responses": "chat",
    "/v1/responses/input_tokens": "chat",
    "/v1/messages": "chat",
    "/v1/messages/count_tokens": "chat",
    "/slots": "chat",
    "/slots/{slot:str}": "chat",
    "/api/chat": "chat",
    "/api/generate": "chat",
    "/v1/embeddings": "embed",
    "/api/embed": "embed",
    "/api/embeddings": "embed",
    "/embedding": "embed",
    "/embeddings": "embed",
    "/v1/rerank": "embed",
    "/v1/reranking": "embed",
    "/rerank": "embed",
    "/reranking": "embed",
    "/v1/images/generations": "krea2",
    "/v1/audio/transcriptions": "stt",
    "/api/asr-streaming": "stt",
    "/v1/realtime": "stt",
}
"""Path to the plugin that ships with the host and serves it."""


ROUTES_OF_KIND = {
    "chat": "/v1/chat/completions or /api/chat",
    "embed": "/v1/embeddings or /api/embed",
    "rerank": "/v1/rerank",
    "image": "/v1/images/generations",
    "stt": "/v1/audio/transcriptions",
}
"""Kind of model to the routes it is mostly asked by."""


def routes_of(kind: str) -> str:
    """Where to ask a model of `kind`, for the answer to who asked it elsewhere."""
    return ROUTES_OF_KIND.get(kind, f"the {kind} routes")


def hint(path: str) -> str:
    """What to add to the answer that `path` does not exist; nothing for paths no API has."""
    plugin = PLUGIN_OF.get(path)
    return f"; it is served with --enable {plugin} and a model (--{plugin}-model)" if plugin else ""
