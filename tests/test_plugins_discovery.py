"""Finding and loading plugins: one bad plugin is named, and never takes the others down."""

from __future__ import annotations

import sys

import pytest

from golem_host import plugins
from golem_host.config import CORE
from golem_host.errors import PluginError, UsageError
from golem_host.testing.distributions import write_distribution

GOOD = """
from golem_host.api import Route, Setting, hookimpl
from golem_host.config import integer

GOLEM_HOST_API = 1

@hookimpl
def golem_settings():
    return [Setting("NAME-level", integer(0), 3, "Level.")]

@hookimpl
def golem_routes():
    return [Route("GET", "/v1/NAME", "nowhere:handler", dialect="openai", summary="Says NAME.")]
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Lay a distribution of one plugin on the import path: install("echo", source)."""
    monkeypatch.syspath_prepend(tmp_path)

    def lay(name: str, source: str = GOOD, *, distribution: str | None = None, module: str | None = None) -> None:
        module = module or f"fake_{name}_{abs(hash(tmp_path))}"
        monkeypatch.delitem(sys.modules, module, raising=False)
        write_distribution(
            tmp_path,
            distribution or f"golem-{name}",
            plugins={name: module},
            modules={module: source.replace("NAME", name)},
        )

    return lay


def named(name: str) -> list[plugins.PluginInfo]:
    return [info for info in plugins.installed() if info.name == name]


def test_installed_imports_nothing(install):
    install("bomb", "raise SystemExit('imported')")
    [info] = named("bomb")
    assert (info.distribution, info.version) == ("golem-bomb", "1.0")
    assert info.value not in sys.modules


def test_only_the_named_plugins_are_imported(install):
    install("one")
    install("two")
    loaded = plugins.load(["one"])
    assert loaded.names == ("one",)
    assert named("one")[0].value in sys.modules
    assert named("two")[0].value not in sys.modules


def test_answers_come_in_the_order_of_enable(install):
    install("one")
    install("two")
    for names in (("two", "one"), ("one", "two")):
        loaded = plugins.load(names)
        assert [name for name, _ in loaded.each("golem_routes")] == list(names)
        assert [spec.plugin for spec in loaded.settings()] == list(names)
    assert loaded.ask("two", "golem_routes")[0][0].path == "/v1/two"
    assert loaded.ask("two", "golem_demo") == []
    assert not loaded.serves_models("two")


def test_a_name_twice_is_one_plugin(install):
    install("one")
    assert plugins.load(["one", "one"]).names == ("one",)


def test_unknown_names_list_what_there_is(install):
    install("echo")
    with pytest.raises(
        UsageError, match=r"no plugin named 'ehco' is installed \(did you mean 'echo'\?\); installed: .*echo"
    ):
        plugins.load(["ehco"])


def test_two_distributions_with_one_name_are_both_named(install):
    install("echo", distribution="golem-echo", module="echo_first")
    install("echo", distribution="echoes", module="echo_second")
    with pytest.raises(PluginError, match=r"claimed by echoes 1\.0 and golem-echo 1\.0; uninstall one"):
        plugins.load(["echo"])
    assert all("claimed by" in (one.error or "") for one in plugins.examine_all() if one.info.name == "echo")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "import a_module_nobody_has",
            "ModuleNotFoundError: No module named 'a_module_nobody_has'; reinstall golem-bad",
        ),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def (", "SyntaxError"),
        ("GOLEM_HOST_API = 99", "made for hook version 99, this golem-host has version 1"),
        ("GOLEM_HOST_API = True", "made for hook version True"),
        ("", "does not say GOLEM_HOST_API"),
        (
            GOOD + "\n@hookimpl\ndef golem_rutes():\n    return []",
            r"unknown hook 'golem_rutes'",
        ),
        (GOOD + "\n@hookimpl\ndef golem_demo(colour):\n    return []", "colour"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_a_named_error(install, source, message):
    install("bad", source)
    with pytest.raises(PluginError, match=r"plugin bad \(golem-bad 1\.0\)") as caught:
        plugins.load(["bad"])
    assert message in str(caught.value)


def test_examination_shows_the_good_beside_the_broken(install):
    install("echo")
    install("wrong", "GOLEM_HOST_API = 7")
    install("crashing", GOOD.replace('return [Route("GET"', 'raise ValueError("no routes")\n    return [Route("GET"'))
    install("strange", GOOD.replace("return [Route", "return 5\n    return [Route"))
    found = {one.info.name: one for one in plugins.examine_all()}
    assert found["echo"].error is None
    assert [route.path for route in found["echo"].routes] == ["/v1/echo"]
    assert (found["wrong"].hook_api, found["wrong"].error is None) == (7, False)
    assert "failed in golem_routes: ValueError: no routes" in (found["crashing"].error or "")
    assert "TypeError" in (found["strange"].error or "")


@pytest.mark.parametrize(
    ("clash", "owner"),
    [
        ('Setting("threads", integer(0), 3, "Level.")', "setting threads already belongs to golem-host itself"),
        ('Setting("one-level", integer(0), 3, "Level.")', "setting one-level already belongs to plugin one"),
        (
            'Setting("x", integer(0), 3, "Level.", env=("GOLEM_HOME",))',
            "GOLEM_HOME already belongs to golem-host itself",
        ),
        (
            'Setting("x", integer(0), 3, "L.", env=("GOLEM_ONE_LEVEL",))',
            "GOLEM_ONE_LEVEL already belongs to plugin one",
        ),
    ],
)
def test_settings_that_clash_name_both_sides(install, clash, owner):
    install("one")
    install("two", GOOD.replace('Setting("NAME-level", integer(0), 3, "Level.")', clash))
    with pytest.raises(PluginError, match="plugin two: .*" + owner):
        plugins.load(["one", "two"]).settings()


def test_a_fault_in_a_hook_names_the_plugin_and_operator_errors_pass(install):
    install("faulty", GOOD + "\n@hookimpl\ndef golem_demo():\n    return 1 / 0")
    install(
        "plain",
        GOOD + "\n@hookimpl\ndef golem_demo():\n    from golem_host.api import UsageError\n    raise UsageError('no')",
    )
    loaded = plugins.load(["faulty", "plain"])
    with pytest.raises(
        PluginError, match=r"plugin faulty \(golem-faulty 1\.0\) failed in golem_demo: ZeroDivisionError"
    ):
        loaded.ask("faulty", "golem_demo")
    with pytest.raises(UsageError, match="^no$"):
        loaded.ask("plain", "golem_demo")


def test_a_hook_may_take_fewer_arguments(install):
    install("short", GOOD + "\n@hookimpl\ndef golem_identify(path):\n    return str(path)")
    loaded = plugins.load(["short"])
    assert loaded.ask("short", "golem_identify", path="p", settings={}) == ["p"]


OWNER = """
from golem_host.api import hookimpl, hookspec

GOLEM_HOST_API = 1

@hookspec
def golem_owner_words(count):
    raise NotImplementedError

@hookimpl
def golem_models(settings, plugins):
    return [word for _, words in plugins.each("golem_owner_words", count=2) for word in words]
"""
USER = """
from golem_host.api import hookimpl

GOLEM_HOST_API = 1

@hookimpl(optionalhook=True)
def golem_owner_words(count):
    return ["NAME"] * count
"""


def test_a_plugin_has_hooks_for_others(install):
    install("owner", OWNER)
    install("user", USER)
    for names in (["owner", "user"], ["user", "owner"]):
        loaded = plugins.load(names)
        assert loaded.each("golem_models", settings={}) == [("owner", ["user", "user"])]
    assert plugins.load(["owner"]).each("golem_models", settings={}) == [("owner", [])]
    assert plugins.load(["user"]).names == ("user",)


def test_a_hook_of_a_plugin_that_is_not_enabled_is_unknown_unless_it_is_optional(install):
    install("user", USER.replace("(optionalhook=True)", ""))
    with pytest.raises(PluginError, match="unknown hook 'golem_owner_words'"):
        plugins.load(["user"])


@pytest.mark.parametrize("name", ["golem_owner_words", "golem_demo"])
def test_a_hook_that_is_there_already_is_refused(install, name):
    install("owner", OWNER)
    install("other", OWNER.replace("golem_owner_words", name))
    with pytest.raises(PluginError, match=rf"plugin other .*: there is a hook '{name}' already"):
        plugins.load(["owner", "other"])


def test_core_names_are_unique():
    names = [spec.name for spec in CORE]
    variables = [variable for spec in CORE for variable in spec.environment_names]
    assert len(set(names)) == len(names)
    assert len(set(variables)) == len(variables)
