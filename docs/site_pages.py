"""Pages of the site that lie elsewhere in the tree, the plugins' READMEs, for mkdocs (`hooks` of mkdocs.yml)."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add `plugins/*/README.md` as `plugins/first-party/*.md`, links into docs/ changed to fit."""
    for readme in sorted(ROOT.glob("plugins/*/README.md")):
        text = re.sub(r"\]\(\.\./\.\./docs/", "](../../", readme.read_text(encoding="utf-8"))
        files.append(File.generated(config, f"plugins/first-party/{readme.parent.name}.md", content=text))
    return files
