"""Models that requests have added, each a small JSON file: served again after a restart."""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from golem_host.errors import BadRequest, GolemError, RequestError
from golem_host.http.fields import Fields
from golem_host.layer import LAYER_BYTES, Layer, layer_of

log = logging.getLogger("golem_host.models")

FORMAT = 1
_NAME = re.compile(r"(?:[a-z0-9][a-z0-9_.-]*/){0,2}[a-z0-9][a-z0-9_.-]*(?::[a-z0-9][a-z0-9_.-]*)?", re.I | re.A)
LONGEST_NAME = 128


@dataclass(frozen=True)
class Manifest:
    """One added model: derived from `base` by `layer`, or made of its own `files` when `base` is empty.

    `created` is in seconds since the epoch. `parent` is the name it was derived from. Of a model of its own, `path`
    is what `setting` (`chat-model`) takes; it and `files` are relative to the model folder.
    """

    name: str
    created: float
    base: str = ""
    parent: str = ""
    layer: Layer = field(default_factory=Layer)
    setting: str = ""
    path: str = ""
    files: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        common = {"format": FORMAT, "name": self.name, "created": self.created}
        if self.base:
            return {**common, "base": self.base, "parent": self.parent, "layer": self.layer.to_json()}
        return {**common, "setting": self.setting, "path": self.path, "files": list(self.files)}


def checked_name(name: str) -> str:
    """`name` without `:latest`, as it may be given to a new model. Raises BadRequest."""
    plain = name.removesuffix(":latest")
    if len(plain) > LONGEST_NAME or not _NAME.fullmatch(plain) or plain.lower().endswith(".gguf"):
        raise BadRequest(
            f"invalid model name '{name[:LONGEST_NAME]}': letters, digits and . _ - make a name, which may have a "
            f":tag and stand after an owner/; at most {LONGEST_NAME} characters, and no .gguf at its end",
            param="model",
        )
    return plain


class ManifestStore:
    """The manifests in `folder`. Everything here reads or writes files: call it on a worker thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> Iterator[Manifest]:
        """Those that can be read, by name; the log tells why another cannot."""
        for path in sorted(self.folder.glob("*.json")):
            try:
                yield _read(path)
            except (OSError, ValueError, GolemError) as error:
                log.warning("%s is left out: %s", path, error)

    def write(self, manifest: Manifest) -> None:
        """Whole or not at all. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".part", delete=False) as draft:
            try:
                json.dump(manifest.to_json(), draft, indent=1)
                draft.flush()
                os.fsync(draft.fileno())
                Path(draft.name).replace(self._path(manifest.name))
            except BaseException:
                Path(draft.name).unlink(missing_ok=True)
                raise

    def remove(self, name: str) -> None:
        """Raises OSError."""
        self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return self.folder / f"{urllib.parse.quote(name.casefold(), safe='')}.json"


def _read(path: Path) -> Manifest:
    if path.stat().st_size > 2 * LAYER_BYTES:
        raise ValueError("it is too large for a manifest")
    content = json.loads(path.read_text())
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"it is no manifest of format {FORMAT}")
    fields = Fields(content)
    try:
        manifest = Manifest(
            name=checked_name(fields.string("name", "")),
            created=fields.number("created", 0.0),
            base=fields.string("base", ""),
            parent=fields.string("parent", ""),
            layer=layer_of(Fields(fields.object("layer") or {})),
            setting=fields.string("setting", ""),
            path=fields.string("path", ""),
            files=tuple(str(name) for name in fields.array("files") or ()),
        )
    except RequestError as error:
        raise ValueError(error.message) from None
    if not manifest.base:
        for name in (manifest.path, *manifest.files):
            if not name or Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError(f"it names a file outside the model folder: {name!r}")
    return manifest
