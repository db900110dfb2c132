"""Fields of a transcription request that are refused by name: what they ask for would not be done."""

from __future__ import annotations

from golem_host.errors import BadRequest
from golem_host.http.form import Form

FIELDS = {
    "prompt": "these models take no text beside the audio",
    "chunking_strategy": "a recording is heard as one stream, which needs no cutting",
    "include": "log probabilities of tokens are not told",
    "keywords": "these models take no text beside the audio",
    "languages": "these models hear which language is spoken",
    "known_speaker_names": "speakers are not told apart",
    "known_speaker_references": "speakers are not told apart",
}
"""Field and reason."""
SERVED = ("file", "model", "language", "response_format", "temperature", "timestamp_granularities", "stream")


def refuse(form: Form) -> None:
    """Raise BadRequest for a field that is not served or not known."""
    for name in form.fields:
        if name in FIELDS:
            if form.text(name) is not None:
                raise BadRequest(f"'{name}' is not served: {FIELDS[name]}", param=name)
        elif name not in SERVED:
            raise BadRequest(f"unknown field '{name[:100]}'; served: {', '.join(SERVED)}", param=name[:100])
