"""GGUF files from a model hub (`hf.co/OWNER/REPO[:QUANT]`): which files, fetched with resume, checked by sha256.

Speaks the hub's two documented calls: `GET /api/models/{repo}?blobs=true` lists files with size and sha256,
`GET /{repo}/resolve/{commit}/{file}` gives one. `HF_ENDPOINT` and `HF_TOKEN` are honoured as the hub's own tools do.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from golem_host.errors import OperatorError, UsageError
from golem_host.parsers import nearest, show_size

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 30
_ATTEMPTS = 5
_LISTING_LIMIT = 16 * 2**20

PREFERRED = ("Q4_K_M", "Q4_0", "Q4_K_S", "Q5_K_M", "Q8_0", "F16", "BF16", "F32")
"""Which quantization is taken when none is named: the usual trade of size against quality first."""

_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
_QUANT = re.compile(r"(?:^|[-._/])((?:I?Q\d|BF16|F16|F32|MXFP4|TQ\d)[A-Z0-9_]*)(?=[-./]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Reference:
    """`hf.co/OWNER/REPO[:QUANT]`."""

    repository: str
    quantization: str | None


@dataclass(frozen=True)
class RemoteFile:
    """A file of a repository: its path there, bytes, and sha256 as hex."""

    name: str
    size: int
    sha256: str


class HubRefused(OperatorError):
    """The hub answered with an error; `code` is its HTTP status."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class HubUnreachable(OperatorError):
    """The hub did not answer, or not to the end: worth another try."""


class Watcher(Protocol):
    """Is told how far a pull is. What it raises ends the pull; what arrived stays."""

    def chosen(self, files: Sequence[RemoteFile]) -> None:
        """The hub has told what there is; these files are wanted."""
        ...

    def fetching(self, file: RemoteFile, have: int) -> None:
        """`have` bytes of `file` are here; called for every piece."""
        ...

    def verifying(self, file: RemoteFile) -> None:
        """`file` is here whole; its sha256 is computed next."""
        ...


@dataclass(frozen=True)
class Pulled:
    """A model's files on this machine, the first part first; `changed` when any of them was not there before."""

    files: tuple[Path, ...]
    changed: bool


def parse_reference(name: str) -> Reference | None:
    """The reference, or None when `name` is not one of the hub. UsageError for a malformed one."""
    match = re.match(r"(?:https?://)?(?:hf\.co|huggingface\.co)/(.*)", name)
    if match is None:
        return None
    inside = re.fullmatch(r"([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}?)/?(?::([\w.-]+))?", match[1], re.ASCII)
    if inside is None:
        raise UsageError(f"expected hf.co/OWNER/REPO or hf.co/OWNER/REPO:QUANT, got {name!r}")
    return Reference(inside[1], inside[2])


def endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def pull(reference: Reference, folder: Path, watcher: Watcher) -> Pulled:
    """Fetch the chosen model's files into `folder/OWNER/REPO`.

    Raises UsageError for a quantization the repository has not, HubUnreachable, HubRefused, and OperatorError for a
    file other than announced or too little space. What arrived stays: the next call goes on from there.
    """
    listing = _get_json(f"{endpoint()}/api/models/{reference.repository}?blobs=true", reference)
    commit = listing.get("sha")
    if not isinstance(commit, str) or not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        raise OperatorError(f"hf.co/{reference.repository}: the hub named no commit")
    files = choose(_gguf_files(listing), reference)
    place = folder / reference.repository
    watcher.chosen(files)
    _require_space(files, place)
    fetched = [_fetch(reference, commit, file, place / file.name, watcher) for file in files]
    return Pulled(tuple(place / file.name for file in files), any(fetched))


def choose(files: list[RemoteFile], reference: Reference) -> list[RemoteFile]:
    """The files of one model: the quantization asked for, else the most preferred; all shards in order."""
    by_quantization: dict[str, list[RemoteFile]] = {}
    for file in files:
        by_quantization.setdefault(quantization_of(file.name), []).append(file)
    if not by_quantization:
        raise OperatorError(
            f"hf.co/{reference.repository} has no GGUF file; look for a repository whose name ends in GGUF"
        )
    wanted = reference.quantization
    if wanted is None:
        ranked = [quantization for quantization in PREFERRED if quantization in by_quantization]
        wanted = ranked[0] if ranked else sorted(by_quantization)[0]
    found = by_quantization.get(wanted.upper())
    if found is None:
        names = sorted(by_quantization)
        raise UsageError(
            f"hf.co/{reference.repository} has no {wanted}{nearest(wanted.upper(), names)}; it has: {', '.join(names)}"
        )
    return _one_model(sorted(found, key=lambda file: file.name), reference)


def _one_model(found: list[RemoteFile], reference: Reference) -> list[RemoteFile]:
    first = found[0]
    shard = _SHARD.search(first.name)
    if shard is None:
        return [first]
    stem, count = first.name[: shard.start()], int(shard[2])
    shards = [file for file in found if file.name.startswith(stem + "-") and _SHARD.search(file.name)]
    if len(shards) != count:
        raise OperatorError(f"hf.co/{reference.repository}: {stem} has {len(shards)} of {count} parts")
    return shards


def quantization_of(name: str) -> str:
    """The quantization that a file's name tells (`Q4_K_M`), `UNNAMED` when it tells none."""
    found = _QUANT.findall(_SHARD.sub(".gguf", name))
    return found[-1].upper() if found else "UNNAMED"


def _gguf_files(listing: Mapping[str, Any]) -> list[RemoteFile]:
    files = []
    siblings = listing.get("siblings")
    for entry in siblings if isinstance(siblings, list) else []:
        name, lfs = entry.get("rfilename"), entry.get("lfs")
        # Projectors of multimodal models lie beside the model; they are no model.
        if not isinstance(name, str) or not name.lower().endswith(".gguf") or "mmproj" in name.lower():
            continue
        parts = name.split("/")
        if not all(re.fullmatch(r"[\w.+ -]{1,200}", part) and part not in (".", "..") for part in parts):
            raise OperatorError(f"the hub lists a file with an unusable name: {name!r}")
        if isinstance(lfs, dict) and isinstance(lfs.get("size"), int) and isinstance(lfs.get("sha256"), str):
            files.append(RemoteFile(name, lfs["size"], lfs["sha256"].lower()))
    return files


def _request(url: str, headers: Mapping[str, str] | None = None) -> urllib.request.Request:
    request = urllib.request.Request(url, headers={"User-Agent": "golem-host", **(headers or {})})
    if token := os.environ.get("HF_TOKEN"):
        # Not sent on when the hub redirects to its storage.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    return request


def _get_json(url: str, reference: Reference) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(_request(url), timeout=_TIMEOUT_SECONDS) as response:
            content = json.loads(response.read(_LISTING_LIMIT))
    except urllib.error.HTTPError as error:
        error.close()
        raise _refused(error, reference) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise HubUnreachable(f"the hub at {endpoint()} could not be asked: {error}") from error
    if not isinstance(content, dict):
        raise OperatorError(f"the hub at {endpoint()} gave no listing of hf.co/{reference.repository}")
    return content


def _refused(error: urllib.error.HTTPError, reference: Reference) -> HubRefused:
    name = f"hf.co/{reference.repository}"
    if error.code == 404:
        said = "no such repository"
    elif error.code in (401, 403):
        said = "not public; accept its terms on the hub and set HF_TOKEN to a token that may read it"
    else:
        said = f"the hub answered {error.code} {error.reason}"
    return HubRefused(f"{name}: {said}", error.code)


def _require_space(files: Sequence[RemoteFile], place: Path) -> None:
    missing = [file for file in files if not (place / file.name).exists()]
    needed = sum(file.size - _size(_part(place / file.name, file)) for file in missing)
    existing = next(folder for folder in (place, *place.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise OperatorError(
            f"{show_size(needed)} are to be fetched into {place}, where {show_size(free)} are free; choose another "
            "place with --model-folder or GOLEM_HOME"
        )


def _part(target: Path, file: RemoteFile) -> Path:
    """Where what has arrived of a file is kept."""
    return target.with_name(f"{target.name}.{file.sha256[:12]}.part")


def _fetch(reference: Reference, commit: str, file: RemoteFile, target: Path, watcher: Watcher) -> bool:
    """Whether it had to be fetched."""
    if target.exists() and target.stat().st_size == file.size:
        watcher.verifying(file)
        if _sha256(target) == file.sha256:
            return False
    part = _part(target, file)
    url = f"{endpoint()}/{reference.repository}/resolve/{commit}/{urllib.parse.quote(file.name)}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _resume(url, part, file, reference, watcher)
        watcher.verifying(file)
        if _sha256(part) != file.sha256:
            part.unlink()
            raise OperatorError(f"{target.name} arrived damaged (its sha256 is another one); pull it again")
        part.replace(target)
        return True
    except OSError as error:
        raise OperatorError(f"{target.name} could not be fetched: {error}") from error


def _resume(url: str, part: Path, file: RemoteFile, reference: Reference, watcher: Watcher) -> None:
    """Append to `part` until it has `file.size` bytes; a connection that breaks is taken up again."""
    for attempt in range(_ATTEMPTS):
        have = _size(part)
        if have >= file.size:
            return
        time.sleep(min(attempt, 3))
        try:
            headers = {"Range": f"bytes={have}-"} if have else {}
            with urllib.request.urlopen(_request(url, headers), timeout=_TIMEOUT_SECONDS) as response:
                if have and response.status != 206:
                    have = 0
                with part.open("ab" if have else "wb") as output:
                    while chunk := response.read1(min(_CHUNK, file.size - have + 1)):
                        have += len(chunk)
                        if have > file.size:
                            part.unlink()
                            raise OperatorError(
                                f"{file.name}: the hub sent more than the {file.size} bytes it announced"
                            )
                        output.write(chunk)
                        watcher.fetching(file, have)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500 or attempt == _ATTEMPTS - 1:
                raise _refused(error, reference) from error
        except (OSError, http.client.HTTPException) as error:
            if attempt == _ATTEMPTS - 1:
                raise HubUnreachable(f"{file.name}: {error}; pull again to go on where it stopped") from error
    if _size(part) < file.size:
        raise HubUnreachable(f"{file.name}: the hub stops sending at {_size(part)} of {file.size} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
