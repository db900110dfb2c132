"""docs/settings.md lists every setting as it is. `python tests/test_config_docs.py` writes it anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from golem_host import plugins
from golem_host.config import CORE, Setting

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"

INTRODUCTION = """\
# Settings

Every setting can be given as a flag, as an environment variable, or in a settings file (TOML, `--config golem.toml`). A
flag wins over the environment, the environment over the file, the file over the default. `golem-host config` prints
every value and where it came from; `--json` makes that machine-readable.

- A flag takes its value after a space or an equals sign; one that is on or off takes none: `--demo`, `--no-demo`.
- A repeatable flag is repeated; in the environment its values are separated by commas, in the file they are an array.
- The file's keys are the names below, with hyphens or underscores. Paths in it are relative to the file.
- Durations are seconds or as in `90s`, `5m`, `1h30m`; sizes as in `256MiB` or `4GB`.
- A flag or key that nothing has is an error; so is one of a plugin that is not enabled.

A variable that is set to nothing counts as not set. One whose name is nearly a setting's is warned of.

```toml
# golem.toml
enable = ["chat"]
addr = "127.0.0.1:8080"
chat-model = ["small=models/SmolLM2-135M-Instruct.Q4_1.gguf"]
```
"""


def page() -> str:
    sections = [INTRODUCTION, section("The host", CORE)]
    for info in plugins.installed():
        if info.distribution == "golem-host":
            specs = plugins.load([info.name]).settings()
            if specs:
                sections.append(section(f"Plugin {info.name}", specs))
    return "\n".join(sections)


def section(title: str, specs: Sequence[Setting]) -> str:
    rows = ["| flag | environment | default | meaning |", "|---|---|---|---|"]
    for spec in specs:
        meaning = spec.help + (" Repeatable." if spec.repeatable else "")
        variables = ", ".join(f"`{name}`" for name in spec.environment_names)
        cells = (f"`{spec.usage}`", variables, spec.default_text(), meaning)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return f"## {title}\n\n" + "\n".join(rows) + "\n"


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "write it anew: python tests/test_config_docs.py"


def test_the_page_has_every_first_party_plugin():
    assert "## Plugin chat" in page()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
