"""Installed distributions made of a few files, for tests of plugin discovery: no pip, no build."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_distribution(
    folder: Path,
    name: str,
    *,
    version: str = "1.0",
    plugins: Mapping[str, str],
    modules: Mapping[str, str],
) -> None:
    """Lay a distribution into `folder`, which then counts as installed wherever it is on the import path.

    `plugins` maps entry-point names in group `golem_host` to module names, `modules` module names to source text.
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = [f"{plugin} = {module}" for plugin, module in plugins.items()]
    (info / "entry_points.txt").write_text("[golem_host]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
