"""The command line as words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.arguments import Arguments, parse
from golem_host.config import CORE
from golem_host.errors import UsageError


def strict(*words: str) -> Arguments:
    return parse(words, CORE, explain_unknown=lambda name: None)


def test_serve_is_the_default():
    assert strict().command == "serve"
    assert strict("--enable", "chat").command == "serve"
    assert strict("serve", "--enable", "chat").flags == {"enable": ["chat"]}


def test_forms_of_flags():
    parsed = strict(
        "--addr=[::1]:1", "--keep-alive", "-1", "--demo", "--no-any-model", "--api-key=a=b", "--api-key", "c"
    )
    assert parsed.flags == {
        "addr": ["[::1]:1"],
        "keep-alive": ["-1"],
        "demo": ["true"],
        "any-model": ["false"],
        "api-key": ["a=b", "c"],
    }


def test_switches_and_operands():
    assert strict("-h").switches == {"help"}
    assert strict("check", "a.gguf", "--json").operands == ["a.gguf"]
    assert strict("check", "--json", "a.gguf").switches == {"json"}
    assert strict("pull", "demo").operands == ["demo"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["srve"], r"unknown command 'srve' \(did you mean 'serve'\?\)"),
        (["frobnicate"], "commands: serve, plugins"),
        (["--adr", "x"], r"unknown flag --adr \(did you mean '--addr'\?\)"),
        (["--addr"], "--addr needs a value: --addr HOST:PORT"),
        (["--addr", "--demo"], "--addr needs a value"),
        (["--addr="], "--addr has an empty value"),
        (["--addr", "a:1", "--addr", "b:1"], "--addr is given twice"),
        (["--demo", "--no-demo"], "--demo is given twice"),
        (["--demo=yes"], "--demo takes no value"),
        (["--no-addr"], "unknown flag --no-addr"),
        (["--json=1"], "--json takes no value"),
        (["--json"], "serve has no --json"),
        (["--enable", "chat", "model.gguf"], "unexpected argument 'model.gguf'"),
        (["--demo", "bench"], "unexpected argument 'bench'; a command comes before the flags: golem-host bench$"),
        (["--", "x"], "unexpected argument '--'"),
        (["-x"], "unexpected argument '-x'"),
        (["check"], "takes one FILE_OR_DIR, none is given"),
        (["check", "a", "b"], "2 are given"),
        (["pull"], "takes one NAME"),
    ],
)
def test_refusals(words, message):
    with pytest.raises(UsageError, match=message):
        strict(*words)


def test_an_owner_of_an_unknown_flag_is_named():
    with pytest.raises(UsageError, match="--voice: belongs to plugin speech"):
        parse(["--voice", "x"], CORE, explain_unknown=lambda name: "belongs to plugin speech")


def test_the_first_look_skips_what_plugins_may_own():
    assert parse(["--voice", "x", "--enable", "speech"], CORE).flags == {"enable": ["speech"]}


@given(
    st.lists(st.sampled_from(["--addr", "--demo", "--no-demo", "--x", "check", "a", "--", "-h", "--json", "=", "--="]))
)
def test_any_words_give_arguments_or_a_usage_error(words):
    for explain in (None, lambda name: None):
        try:
            parse(words, CORE, explain_unknown=explain)
        except UsageError as error:
            assert str(error)
