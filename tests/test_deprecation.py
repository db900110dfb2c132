"""What is deprecated works, and says once which version ends it: as a warning, and in the log."""

from __future__ import annotations

import logging
import sys
import warnings

import pytest

from golem_host import api, deprecation, hookspecs, plugins
from golem_host.deprecation import Deprecation, deprecated, old_names
from golem_host.testing.distributions import write_distribution


@pytest.fixture(autouse=True)
def fresh(monkeypatch, caplog):
    """As in a process that was told of nothing yet."""
    monkeypatch.setattr(deprecation, "_told", set())
    caplog.set_level(logging.WARNING, logger="golem_host.deprecation")


@deprecated(ends="0.3", instead="use mix")
def stir(spoons: int) -> str:
    """Stirs."""
    return "stirred" * spoons


STIR = f"{__name__}.stir is deprecated and ends with golem-host 0.3: use mix"


def test_a_deprecated_function_works_and_warns_once_of_its_caller(caplog):
    with pytest.warns(Deprecation) as warned:
        assert stir(1) == "stirred"
    assert [(str(each.message), each.filename) for each in warned] == [(STIR, __file__)]
    assert caplog.messages == [STIR]
    assert stir(spoons=2) == "stirredstirred", "the second call says nothing, or it would be an error here"
    assert (stir.__name__, stir.__doc__) == ("stir", "Stirs.")
    assert issubclass(Deprecation, DeprecationWarning)


def test_an_old_name_leads_to_the_new_one(caplog):
    get = old_names("here", {"Ways": ("golem_host.hookspecs.Route", "0.4")})
    with pytest.warns(
        Deprecation, match="^here.Ways is deprecated and ends with golem-host 0.4: use golem_host"
    ) as warned:
        assert get("Ways") is hookspecs.Route
    assert [each.filename for each in warned] == [__file__]
    assert get("Ways") is hookspecs.Route
    assert len(caplog.messages) == 1
    with pytest.raises(AttributeError, match="^module 'here' has no attribute 'Way'$"):
        get("Way")


def test_the_first_module_of_plugins_knows_old_names(monkeypatch):
    monkeypatch.setattr(api, "_old_name", old_names(api.__name__, {"Path": ("golem_host.hookspecs.Route", "0.4")}))
    with pytest.warns(Deprecation, match="golem_host.api.Path"):
        assert api.Path is hookspecs.Route  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="module 'golem_host.api' has no attribute 'Paths'"):
        _ = api.Paths  # type: ignore[attr-defined]


@pytest.fixture
def old_argument(monkeypatch, tmp_path):
    """`golem_demo` has a deprecated argument, and plugin `old` names it; `new` does not."""
    notice = Deprecation("golem_demo's argument colour", ends="0.3", instead="name nothing")

    @hookspecs.hookspec(warn_on_impl_args={"colour": notice})
    def golem_demo(colour: str) -> None:
        raise NotImplementedError

    monkeypatch.setattr(hookspecs, "golem_demo", golem_demo)
    monkeypatch.syspath_prepend(tmp_path)
    source = "from golem_host.api import hookimpl\nGOLEM_HOST_API = 1\n@hookimpl\ndef golem_demo({}):\n    return []"
    for name, argument in (("old", "colour"), ("new", "")):
        monkeypatch.delitem(sys.modules, f"deprecating_{name}", raising=False)
        module = {f"deprecating_{name}": source.format(argument)}
        write_distribution(tmp_path, f"golem-{name}", plugins={name: f"deprecating_{name}"}, modules=module)


@pytest.mark.usefixtures("old_argument")
def test_a_deprecated_argument_of_a_hook_is_still_given_and_told_of(caplog):
    text = "golem_demo's argument colour is deprecated and ends with golem-host 0.3: name nothing"
    with pytest.warns(Deprecation) as warned:
        loaded = plugins.load(["new", "old"])
    assert [str(each.message) for each in warned] == [text]
    assert warned[0].filename.endswith("deprecating_old.py")
    assert caplog.messages == [f"plugin old (golem-old 1.0): {text}"]
    assert loaded.ask("old", "golem_demo", colour="red") == [[]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Deprecation)
        plugins.load(["old"])
    assert len(caplog.messages) == 1
