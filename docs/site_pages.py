"""Pages of the site that lie elsewhere in the tree, the plugins' READMEs, for mkdocs (`hooks` of mkdocs.yml)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
FOLDER = "plugins/first-party"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add `plugins/*/README.md` as pages."""
    for readme in sorted(ROOT.glob("plugins/*/README.md")):
        name = f"{FOLDER}/{readme.parent.name}.md"
        files.append(File.generated(config, name, content=readme.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links between docs/ and those pages, which stand as they lead in the tree."""
    if page.file.src_uri.startswith(FOLDER):
        return re.sub(r"\]\((?:\.\./)+docs/", "](../../", markdown)
    up = "../" * page.file.src_uri.count("/")
    return re.sub(r"\]\((?:\.\./)+plugins/(\w+)/README\.md", rf"]({up}{FOLDER}/\1.md", markdown)
