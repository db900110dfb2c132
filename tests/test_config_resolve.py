"""Which source wins, what each one may look like, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from golem_host.config import CORE, NamedPath, Setting, boolean, integer, listing, named_path, resolve, text
from golem_host.errors import UsageError

SPECS = (
    Setting("context", integer(1), 4096, "Positions.", env=("OLD_CONTEXT",)),
    Setting("chat-model", named_path, (), "Models.", repeatable=True),
    Setting("enable", listing, (), "Plugins.", repeatable=True),
    Setting("fast", boolean, False, "Fast.", is_flag=True),
    Setting("api-key", text, (), "Key.", repeatable=True, secret=True),
)


def toml(folder: Path, content: str) -> Path:
    file = folder / "golem.toml"
    file.write_text(content, encoding="utf-8")
    return file


def test_precedence_and_sources(tmp_path):
    file = toml(tmp_path, "context = 10\n")
    flags, env = {"context": ["30"]}, {"GOLEM_CONTEXT": "20", "OLD_CONTEXT": "15"}
    seen = []
    for given_flags, given_env, given_file in [
        (flags, env, file),
        ({}, env, file),
        ({}, {"OLD_CONTEXT": "15"}, file),
        ({}, {}, file),
        ({}, {}, None),
    ]:
        settings = resolve(SPECS, given_flags, given_env, given_file)
        seen.append((settings["context"], settings.source("context")))
    assert seen == [
        (30, "flag --context"),
        (20, "env GOLEM_CONTEXT"),
        (15, "env OLD_CONTEXT"),
        (10, str(file)),
        (4096, "default"),
    ]


def test_an_empty_variable_is_no_variable():
    assert resolve(SPECS, {}, {"GOLEM_CONTEXT": ""}, None).source("context") == "default"


def test_repeatable_settings(tmp_path):
    models = (NamedPath(None, Path("a.gguf")), NamedPath("b", Path("/b.gguf")))
    assert resolve(SPECS, {"chat-model": ["a.gguf", "b=/b.gguf"]}, {}, None)["chat-model"] == models
    assert resolve(SPECS, {}, {"GOLEM_CHAT_MODEL": "a.gguf, b=/b.gguf"}, None)["chat-model"] == models
    assert resolve(SPECS, {"enable": ["a,b", "c"]}, {}, None)["enable"] == ("a", "b", "c")
    assert resolve(SPECS, {}, {}, toml(tmp_path, 'enable = ["a", "b"]'))["enable"] == ("a", "b")
    assert resolve(SPECS, {}, {}, toml(tmp_path, 'enable = "a,b"'))["enable"] == ("a", "b")
    assert resolve(SPECS, {}, {}, toml(tmp_path, "enable = []"))["enable"] == ()


def test_paths_of_a_settings_file_are_relative_to_it(tmp_path):
    settings = resolve(SPECS, {}, {}, toml(tmp_path, 'chat-model = ["m.gguf", "n=/abs.gguf"]'))
    assert settings["chat-model"] == (NamedPath(None, tmp_path / "m.gguf"), NamedPath("n", Path("/abs.gguf")))


def test_keys_with_underscores(tmp_path):
    assert resolve(SPECS, {}, {}, toml(tmp_path, 'api_key = "k"'))["api-key"] == ("k",)
    with pytest.raises(UsageError, match="given twice"):
        resolve(SPECS, {}, {}, toml(tmp_path, 'api_key = "k"\napi-key = "l"'))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("contxt = 1", r"contxt: unknown setting \(did you mean 'context'\?\)"),
        ("context = 0", r"^settings file .*golem\.toml: context: .*at least 1"),
        ("context = 1.5", "whole number"),
        ("context = true", "whole number"),
        ("context = [1, 2]", "expected one value, got an array"),
        ("context = {a = 1}", "got a table"),
        ("context = 2020-01-01", "got a date"),
        ("fast = 1", "expected true or false"),
        ("enable = [[1]]", "got a list"),
        ("context = ", "golem.toml"),
    ],
)
def test_bad_settings_files(tmp_path, content, message):
    with pytest.raises(UsageError, match=message):
        resolve(SPECS, {}, {}, toml(tmp_path, content))


def test_settings_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        resolve(SPECS, {}, {}, tmp_path / "absent.toml")
    with pytest.raises(UsageError, match="directory"):
        resolve(SPECS, {}, {}, tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(UsageError, match="latin.toml"):
        resolve(SPECS, {}, {}, tmp_path / "latin.toml")


def test_a_bad_value_names_its_source():
    with pytest.raises(UsageError, match="^flag --context: expected a whole number"):
        resolve(SPECS, {"context": ["x"]}, {"GOLEM_CONTEXT": "1"}, None)
    with pytest.raises(UsageError, match="^env GOLEM_FAST: expected true or false"):
        resolve(SPECS, {}, {"GOLEM_FAST": "x"}, None)


def test_unknown_keys_may_be_explained_or_skipped(tmp_path):
    file = toml(tmp_path, "other = 1")
    with pytest.raises(UsageError, match="other: belongs elsewhere"):
        resolve(SPECS, {}, {}, file, explain_unknown=lambda name: "belongs elsewhere")
    assert "other" not in resolve(SPECS, {}, {}, file, explain_unknown=None)


def test_replaced_keeps_the_rest():
    settings = resolve(SPECS, {"context": ["5"]}, {}, None).replaced("--demo", chat_model=("m",))
    assert (settings["chat-model"], settings.source("chat-model")) == (("m",), "--demo")
    assert (settings["context"], settings.source("context")) == (5, "flag --context")
    with pytest.raises(KeyError):
        settings.replaced("--demo", chatmodel=())


def test_core_defaults_are_values_of_their_own_parsers():
    settings = resolve(CORE, {}, {}, None)
    assert settings["threads"] >= 1
    for spec in CORE:
        default = settings[spec.name]
        if default is not None and not spec.repeatable and not callable(spec.default):
            shown = spec.show(default)
            assert spec.parse(shown) == default, spec.name


def test_secrets_are_not_shown():
    settings = resolve(SPECS, {"api-key": ["hunter2"]}, {}, None)
    shown = {spec.name: spec.show(settings[spec.name]) for spec in settings.specs}
    assert shown["api-key"] == "***"
