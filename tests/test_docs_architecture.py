"""docs/architecture.md names files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED = sorted(set(re.findall(r"`([\w./*]+\.(?:py|h|cpp|md))`", (ROOT / "docs/architecture.md").read_text())))
FOLDERS = (
    "",
    "golem_host",
    "plugins/chat/golem_host_chat",
    "golem_host/http",
    "golem_host/devices/cpu",
    "golem_host/text",
)
FOLDERS += (
    "plugins/embed/golem_host_embed",
    "plugins/embed/golem_host_embed/routes",
    "plugins/krea2/golem_host_krea2",
    "plugins/laya/golem_host_laya",
    "plugins/laya/golem_host_laya/routes",
    "plugins/stt/golem_host_stt",
    "plugins/stt/golem_host_stt/routes",
    "golem_host/weights",
    "plugins/chat/golem_host_chat/constraints",
    "plugins/chat/golem_host_chat/families",
    "plugins/chat/golem_host_chat/routes",
)


@pytest.mark.parametrize("name", NAMED)
def test_the_file_is_there(name: str) -> None:
    assert any(list((ROOT / folder).glob(name)) for folder in FOLDERS)
