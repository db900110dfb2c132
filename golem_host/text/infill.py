"""The tokens by which a model is asked to fill in what is between two texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from golem_host.text.endings import FIM_MIDDLE, FIM_PREFIX, FIM_SUFFIX


@dataclass(frozen=True)
class InfillTokens:
    """Before the text that comes first, before the one that comes last, before what is written; `repository` begins the
    name of a project and `file` that of a file, where there are such tokens.
    """

    prefix: int
    suffix: int
    middle: int
    repository: int | None
    file: int | None


def find_infill(
    ids: Mapping[bytes, int], named: Mapping[str, int | None], repository: int | None, file: int | None
) -> InfillTokens | None:
    """Those of a vocabulary: `named` by its file as `prefix`, `suffix` and `middle`, else known by their texts (of
    several the first listed); None when one of the three is missing.
    """
    found = {}
    for role, texts in (("prefix", FIM_PREFIX), ("suffix", FIM_SUFFIX), ("middle", FIM_MIDDLE)):
        known = (ids[text.encode()] for text in texts if text.encode() in ids)
        id = named[role] if named[role] is not None else next(known, None)
        if id is None:
            return None
        found[role] = id
    return InfillTokens(**found, repository=repository, file=file)
