"""The conformance suite: checks that every plugin passes, run by pytest against a host in the test's process.

A test class says what is to be tested and inherits the checks, each a test of its own:

    from golem_host.testing.conformance import PluginConformance, Sample

    class TestConformance(PluginConformance):
        plugin = "echo"  # the name in --enable; the plugin is installed
        samples = (
            Sample("POST", "/v1/echo", json={"text": "one"}, stream={"stream": True}),
            Sample("POST", "/v1/echo", json={"text": "two"}),
        )

        def settings(self, folder):  # only for a plugin with models
            return {"echo-model": f"tiny={tiny_echo_file(folder / 'tiny.echo')}"}

A plugin without models needs `plugin` alone. The other attributes are those of `subject.Subject`. The same checks run
for an installed plugin with `pytest --golem-plugin echo`: with the class that the plugin's module names in
`GOLEM_HOST_CONFORMANCE = "golem_host_echo.conformance:Conformance"` if there is such a line, else with its GET routes.

What each test checks is listed in docs/plugins/testing.md.
"""

from __future__ import annotations

from golem_host.testing.conformance.sample import Sample
from golem_host.testing.conformance.suite import PluginConformance

__all__ = ["PluginConformance", "Sample"]
