"""What `pytest --golem-plugin NAME` collects."""

from __future__ import annotations

from golem_host.testing.conformance.chosen import names, suite_of

for _name in names:
    globals()[f"Test_{_name}"] = suite_of(_name)
