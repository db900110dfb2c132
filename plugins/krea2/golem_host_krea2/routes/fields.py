"""The fields of a request for a picture."""

from __future__ import annotations

import math
import re
import secrets
from dataclasses import dataclass

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields
from golem_host.http.keep_alive import KeepAlive, parse_keep_alive
from golem_host_krea2.picture import LEAST, MAX_SEED, MAX_STEPS, MOST, MULTIPLE
from golem_host_krea2.routes.unserved import UNSERVED

MAX_CFG = 100.0
MAX_PREVIEWS = 3
DRAWN_SEED_BITS = 32
"""The generator reads no more of a seed, and every JSON reader keeps that many."""

SERVED = (
    "model", "prompt", "negative_prompt", "n", "size", "response_format", "steps", "cfg", "seed", "stream",
    "partial_images", "progress_id", "user", "keep_alive",
)  # fmt: skip
"""Every field that is read."""

_SIZE = re.compile(r"([0-9]{1,5})x([0-9]{1,5})")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class PictureFields:
    """What was asked for. `negative` is None at guidance 1, which reads none."""

    model: str | None
    prompt: str
    negative: str | None
    width: int
    height: int
    steps: int
    cfg: float
    seed: int
    stream: bool
    previews: int
    progress_id: str
    keep_alive: KeepAlive


def read_fields(fields: Fields) -> PictureFields:
    """Raises BadRequest naming the field at fault."""
    for name, reason, neutral in UNSERVED:
        fields.refuse(name, reason, neutral)
    fields.refuse_others(*SERVED, *(name for name, _, _ in UNSERVED))
    prompt = fields.string("prompt")
    if prompt is None or not prompt.strip():
        raise BadRequest("'prompt' is required and must say something", param="prompt")
    if fields.integer("n", 1) != 1:
        raise fields.fault("n", "one picture at a time; ask again for another")
    if fields.string("response_format", "b64_json") != "b64_json":
        raise fields.fault("response_format", "pictures are answered as 'b64_json'; nothing here keeps them for a url")
    stream = fields.boolean("stream", False)
    previews = fields.integer("partial_images", 0, 0, MAX_PREVIEWS)
    if previews and not stream:
        raise fields.fault("partial_images", "previews come with 'stream': true")
    width, height = _size(fields)
    cfg = fields.number("cfg", 1.0, 0.0, MAX_CFG)
    fields.string("user")
    return PictureFields(
        model=fields.string("model"),
        prompt=prompt,
        negative=_negative(fields, cfg),
        width=width,
        height=height,
        steps=fields.integer("steps", 8, 1, MAX_STEPS),
        cfg=cfg,
        seed=_seed(fields),
        stream=stream,
        previews=previews,
        progress_id=_progress_id(fields),
        keep_alive=parse_keep_alive(fields.value("keep_alive")),
    )


def _size(fields: Fields) -> tuple[int, int]:
    text = fields.string("size", "auto")
    if text == "auto":
        return 1024, 1024
    match = _SIZE.fullmatch(text)
    if match is None:
        raise fields.fault("size", f"expected WIDTHxHEIGHT or 'auto', got {text[:40]!r}")
    width, height = int(match[1]), int(match[2])
    for side in (width, height):
        if side % MULTIPLE or not LEAST <= side <= MOST:
            raise fields.fault("size", f"each side is a multiple of {MULTIPLE} from {LEAST} to {MOST}, got {text}")
    return width, height


def _negative(fields: Fields, cfg: float) -> str | None:
    negative = fields.string("negative_prompt", "")
    if not math.isclose(cfg, 1.0):
        return negative
    if negative:
        raise fields.fault("negative_prompt", "nothing reads it at cfg 1, the default; give another 'cfg'")
    return None


def _seed(fields: Fields) -> int:
    seed = fields.integer("seed", -1, -1, MAX_SEED)
    return secrets.randbits(DRAWN_SEED_BITS) if seed == -1 else seed


def _progress_id(fields: Fields) -> str:
    given = fields.string("progress_id")
    if given is None:
        return f"img_{secrets.token_hex(8)}"
    if not _ID.fullmatch(given):
        raise fields.fault("progress_id", "expected up to 64 letters, digits, '-' and '_'")
    return given
