"""Fields of a transcription request that are refused by name: what they ask for would not be done."""

from __future__ import annotations

from golem_host.http.fields import Fields

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


def refuse(fields: Fields) -> None:
    """Raise BadRequest for a field that is not served or not known."""
    for name, reason in FIELDS.items():
        fields.refuse(name, reason)
    fields.refuse_others(*SERVED)
