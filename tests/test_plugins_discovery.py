"""Finding and loading plugins: one bad plugin is named, and never takes the others down."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from golem_host import hookspecs, plugins
from golem_host.config import CORE
from golem_host.errors import PluginError, UsageError
from golem_host.hookspecs import Identified
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
        ("GOLEM_HOST_API = 1\nraise KeyError", "KeyError: no message"),
        (
            "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\nraise Mute",
            "Mute: no message, for telling it raises ValueError;",
        ),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_a_named_error(install, source, message):
    install("bad", source)
    with pytest.raises(PluginError, match=r"plugin bad \(golem-bad 1\.0\)") as caught:
        plugins.load(["bad"])
    assert message in str(caught.value)
    assert "leave " in str(caught.value) and " out of --enable" in str(caught.value)


@pytest.mark.parametrize("value", ["no module", "fake:attribute", "", "a..b"])
def test_an_entry_point_that_names_no_module(tmp_path, monkeypatch, value):
    monkeypatch.syspath_prepend(tmp_path)
    write_distribution(tmp_path, "golem-bad", plugins={"bad": value}, modules={})
    with pytest.raises(PluginError, match="its entry point is '.*', expected the name of a module; tell its authors"):
        plugins.load(["bad"])
    assert "expected the name of a module" in (plugins.examine(*named("bad")).error or "")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(b"[golem_host]\nno equals sign\n", "TypeError"), (b"[golem_host]\nb = \xff\n", "UnicodeDecodeError")],
)
def test_one_damaged_distribution_hides_no_other(install, tmp_path, damage, reason):
    install("echo")
    for name in ("golem-host-damaged", "somebody-elses"):
        write_distribution(tmp_path, name, plugins={}, modules={})
        info = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        (info / "entry_points.txt").write_bytes(
            damage.replace(b"golem_host", b"console_scripts") if "else" in name else damage
        )
    assert plugins.load(["echo"]).names == ("echo",)
    found = {one.info.name: one for one in plugins.examine_all()}
    assert found["echo"].error is None and found["chat"].error is None
    assert "somebody-elses" not in found
    error = found["golem-host-damaged"].error or ""
    assert f"its entry_points.txt cannot be read ({reason}" in error and "reinstall golem-host-damaged" in error


def test_a_distribution_without_metadata_is_listed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write_distribution(tmp_path, "golem-bare", plugins={"bare": "nowhere"}, modules={})
    (tmp_path / "golem_bare-1.0.dist-info" / "METADATA").unlink()
    assert [(info.distribution, info.version) for info in named("bare")] == [("unknown", "unknown")]


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
    assert "failed in golem_routes: expected a list of Route, got a int" in (found["strange"].error or "")


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


@pytest.mark.parametrize(
    ("hook", "answer", "reason"),
    [
        ("golem_settings", "['level']", "expected a list of Setting, one of its items is a str"),
        ("golem_models", "iter(())", "expected a list of Model, got a tuple_iterator"),
        ("golem_routes", "{}", "expected a list of Route, got a dict"),
        ("golem_routes", "[Route('FLY', '/v1', 'm:f', 'openai', '')]", "/v1 has the unknown method 'FLY'; known: GET,"),
        ("golem_routes", "[Route('GET', 'v1', 'm:f', 'openai', '')]", "the path 'v1' does not begin with /"),
        ("golem_openapi", "[]", "expected a dict of Operation, got a list"),
        ("golem_identify", "'text'", "expected Identified or None, got a str"),
        ("golem_demo", "[None]", "expected a list of DemoModel, one of its items is None"),
        ("golem_bench", "5", "expected a list of Workload, got a int"),
        ("golem_metrics", "5", "expected a list of Metric, got a int"),
        ("golem_demo", "__import__('sys').exit(3)", "SystemExit: 3"),
    ],
)
def test_an_answer_that_is_none_names_the_plugin(install, hook, answer, reason):
    source = f"from golem_host.api import *\nGOLEM_HOST_API = 1\n@hookimpl\ndef {hook}():\n    return {answer}"
    install("odd", source)
    with pytest.raises(PluginError) as caught:
        plugins.load(["odd"]).ask("odd", hook, **dict.fromkeys(ARGUMENTS[hook]))
    assert str(caught.value).startswith(f"plugin odd (golem-odd 1.0) failed in {hook}: {reason}")
    assert str(caught.value).endswith("; tell its authors, or leave it out of --enable")


HOOKS = [name for name, hook in vars(hookspecs).items() if hasattr(hook, "golem_host_spec")]
ARGUMENTS = {
    name: [each for each in inspect.signature(getattr(hookspecs, name)).parameters if each != "plugins"]
    for name in HOOKS
}
ANSWERS = {"golem_openapi": "{}", "golem_identify": "None"}


def test_the_hooks_are_found():
    assert {"golem_settings", "golem_models", "golem_identify", "golem_metrics"} <= set(HOOKS)


def taking(hook: str, arguments: Sequence[str]) -> str:
    """A plugin whose hook takes these arguments, and says which it was given."""
    lines = ["from golem_host.api import hookimpl", "GOLEM_HOST_API = 1", "taken = []", "@hookimpl"]
    lines += [f"def {hook}({', '.join(arguments)}):", "    taken.append(sorted(locals()))"]
    return "\n".join([*lines, f"    return {ANSWERS.get(hook, '[]')}"])


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_may_take_fewer_arguments(install, hook):
    """Every subset, in any order."""
    names = list(inspect.signature(getattr(hookspecs, hook)).parameters)
    subsets = [each for count in range(len(names) + 1) for each in itertools.permutations(names, count)]
    for number, subset in enumerate(subsets):
        name = f"short{number}"
        install(name, taking(hook, subset))
        plugins.load([name]).ask(name, hook, **dict.fromkeys(ARGUMENTS[hook]))
        module = sys.modules[named(name)[0].value]
        assert module.taken == [sorted(subset)], "not called once with these"


@pytest.mark.parametrize("hook", HOOKS)
def test_an_argument_that_a_later_version_adds_breaks_no_plugin(install, monkeypatch, hook):
    """The plugin knows the arguments of today; the host has one more, and a hook more."""
    names = list(inspect.signature(getattr(hookspecs, hook)).parameters)
    install("old", taking(hook, names))
    later: dict[str, Any] = {"hookspec": hookspecs.hookspec}
    exec(f"@hookspec\ndef {hook}({', '.join([*names, 'later'])}): ...\n@hookspec\ndef golem_later(): ...", later)
    for name in (hook, "golem_later"):
        monkeypatch.setattr(hookspecs, name, later[name], raising=False)
    loaded = plugins.load(["old"])
    loaded.ask("old", hook, later=1, **dict.fromkeys(ARGUMENTS[hook]))
    module = sys.modules[named("old")[0].value]
    assert module.taken == [sorted(names)], "not called once with these"
    assert loaded.ask("old", "golem_later") == []


OWNER = """
from golem_host.api import Identified, hookimpl, hookspec

GOLEM_HOST_API = 1

@hookspec
def golem_owner_words(count):
    raise NotImplementedError

@hookimpl
def golem_identify(plugins):
    words = [word for _, words in plugins.each("golem_owner_words", count=2) for word in words]
    return Identified("owner", " ".join(words))
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
        assert loaded.each("golem_identify", path="", settings={}) == [("owner", Identified("owner", "user user"))]
    alone = plugins.load(["owner"])
    assert alone.each("golem_identify", path="", settings={}) == [("owner", Identified("owner", ""))]
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
