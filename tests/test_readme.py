"""README's first commands do what it says: the demo starts, and its curl answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_it_opens_with_the_two_commands():
    assert BLOCKS[0].strip() == "pip install . && golem-host --demo"
    assert BLOCKS[1].startswith("curl http://127.0.0.1:8080/v1/chat/completions ")
    assert BLOCKS[2].startswith("curl http://127.0.0.1:8080/v1/embeddings ")
    assert BLOCKS[3].strip() == "pip install '.[test]' && pytest"


def test_files_it_links_to_are_there():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    missing = [link for link in links if not (Path(__file__).parents[1] / link).exists()]
    assert not missing


@pytest.mark.real
def test_the_demo_answers_the_curls(smollm2_path, minilm_path, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / smollm2_path.name).symlink_to(smollm2_path)
    (home / "all-MiniLM-L6-v2").symlink_to(minilm_path)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GOLEM_")}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "golem_host", "--demo", "--addr", "127.0.0.1:0"],
        env={**kept, "GOLEM_HOME": str(home)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as host:
        try:
            assert host.stdout is not None
            ready = next((match for line in host.stdout if (match := re.match(r"Ready: http://(\S+)", line))), None)
            assert ready, "the host ended without being ready"
            chat, vectors = (
                subprocess.run(
                    ["bash", "-c", curl.replace("127.0.0.1:8080", ready[1]).replace("curl ", "curl --silent ", 1)],
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=120,
                ).stdout
                for curl in BLOCKS[1:3]
            )
        finally:
            host.terminate()
    assert host.returncode == 0
    promised = re.search(r'`("content":"[^`]+")`', README)
    assert promised
    assert promised[1] in chat
    first, second = (item["embedding"] for item in json.loads(vectors)["data"])
    assert len(first) == len(second) == 4
    assert first != second
