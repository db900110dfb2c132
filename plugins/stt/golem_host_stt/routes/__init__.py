"""The routes of the speech-to-text plugin. Handlers are named as text: they import litestar, this does not."""

from golem_host.api import Route

_HERE = "golem_host_stt.routes"

ROUTES = (
    Route(
        "POST",
        "/v1/audio/transcriptions",
        f"{_HERE}.transcriptions:transcriptions",
        dialect="openai",
        summary="Transcribes an audio file",
    ),
    Route(
        "WEBSOCKET",
        "/api/asr-streaming",
        f"{_HERE}.asr_streaming:asr_streaming",
        dialect="openai",
        summary="Hears live audio and tells its words (Kyutai's protocol)",
        key_names=("kyutai-api-key", "auth_id"),
    ),
    Route(
        "WEBSOCKET",
        "/v1/realtime",
        f"{_HERE}.realtime:realtime",
        dialect="openai",
        summary="Hears live audio and tells its words (OpenAI's realtime API)",
    ),
)
