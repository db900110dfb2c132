"""The commands that only look, called in this process: what they print, and their exit codes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from golem_host import cli
from golem_host.arguments import COMMANDS, JSON_COMMANDS
from golem_host.testing.distributions import write_distribution

SPEECH = """
from pathlib import Path
from golem_host.api import DemoModel, Identified, Model, ModelFileError, Route, Setting, hookimpl
from golem_host.config import boolean, integer, named_path, text

GOLEM_HOST_API = 1

class SpeechModel(Model):
    kind, plugin, family, quantization = "speech", "speech", "mimic", "F16"
    def __init__(self, path, name=None):
        content = path.read_text() if path.is_file() else ""
        if content.startswith("bad"):
            raise ModelFileError(path, "tensor 'x' is missing")
        self.path, self.name, self.size_bytes = path, name or path.stem, len(content)
    def load(self, device, settings, progress):
        raise AssertionError("nothing here loads a model")

@hookimpl
def golem_settings():
    return [
        Setting("speech-model", named_path, (), "Model to serve.", repeatable=True, metavar="[NAME=]PATH"),
        Setting("pitch", integer(1), 440, "Pitch.", metavar="HZ"),
        Setting("whisper", boolean, False, "Speak low.", is_flag=True),
        Setting("pin", text, None, "Secret number.", secret=True),
    ]

@hookimpl
def golem_models(settings):
    return [SpeechModel(given.path, given.name) for given in settings["speech-model"]]

@hookimpl
def golem_routes():
    return [Route("POST", "/v1/say", "speech_routes:say", dialect="openai", summary="Say it")]

@hookimpl
def golem_identify(path, settings):
    if path.suffix != ".speech":
        return None
    if path.read_text().startswith("mute"):
        return Identified("speech", "mimic", problems=("there is no voice in it",))
    model = SpeechModel(path)
    return Identified(
        "speech", model.family, rows=(("pitch", str(settings["pitch"])),), size_bytes=model.size_bytes,
        memory=int(path.read_text().split()[-1]), quantization="F16", setting="speech-model",
    )
"""


@pytest.fixture
def golem(tmp_path, monkeypatch, capsys):
    """Run a command with the speech plugin installed: golem("plugins") -> (exit code, stdout, stderr)."""
    for name in list(os.environ):
        if name.startswith("GOLEM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GOLEM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "speech_plugin", raising=False)
    write_distribution(
        tmp_path / "site", "golem-speech", version="2.5", plugins={"speech": "speech_plugin"},
        modules={"speech_plugin": SPEECH},
    )  # fmt: skip

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_version(golem):
    code, out, _ = golem("--version")
    assert (code, out.split()[0]) == (0, "golem-host")


def test_plugins_lists_good_and_broken(golem, tmp_path):
    write_distribution(tmp_path / "site", "golem-broken", plugins={"broken": "nowhere"}, modules={})
    code, out, err = golem("plugins")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert rows["speech"].split() == ["speech", "golem-speech", "2.5", "version", "1", "loads", "POST", "/v1/say"]
    assert "  broken  plugin broken (golem-broken 1.0) could not be" in rows["broken"]
    assert "No module named 'nowhere'; reinstall golem-broken, or leave broken out of --enable" in " ".join(out.split())
    assert max(map(len, out.splitlines()[:-1])) <= 100
    assert out.splitlines()[-1].endswith("What is broken does no harm until --enable names it.")
    code, out, _ = golem("plugins", "--json")
    listed = {entry["name"]: entry for entry in json.loads(out)}
    assert listed["speech"] == {
        "name": "speech",
        "distribution": "golem-speech",
        "version": "2.5",
        "module": "speech_plugin",
        "hook_api": 1,
        "loads": True,
        "error": None,
        "routes": [{"method": "POST", "path": "/v1/say", "summary": "Say it"}],
        "settings": ["speech-model", "pitch", "whisper", "pin"],
    }
    assert listed["broken"]["loads"] is False


def test_nothing_enabled_names_the_plugins(golem):
    code, out, err = golem()
    assert (code, out) == (2, "")
    assert "speech" in err and "broken" not in err
    assert "no plugin is enabled; try golem-host --demo" in err


def test_demo_takes_the_plugins_that_have_a_demo_model(golem):
    code, out, _ = golem("config", "--demo", "--json")
    assert code == 0
    enabled = json.loads(out)["enable"]["value"].split(",")
    assert "chat" in enabled
    assert "speech" not in enabled
    assert json.loads(out)["enable"]["source"] == "flag --demo"


def test_config_shows_that_nothing_is_enabled_and_every_setting(golem):
    code, out, _ = golem("config", "--json")
    assert code == 0
    values = json.loads(out)
    assert values["enable"] == {"value": "none", "source": "default"}
    assert {"context", "pitch"} <= values.keys()


def test_a_misspelt_variable_is_warned_of(golem, monkeypatch):
    for name, value in {"GOLEM_PICH": "3", "GOLEM_CONTEXT": "9", "GOLEM_QEUE": "", "GOLEM_ORACLE_PYTHON": "x"}.items():
        monkeypatch.setenv(name, value)
    code, _, err = golem("config", "--enable", "speech")
    assert code == 0
    warning = "golem-host: warning: variable GOLEM_PICH is no setting (did you mean 'GOLEM_PITCH'?)\n"
    assert err == warning
    code, _, err = golem()
    assert code == 2 and err.startswith(warning + "golem-host: no plugin is enabled")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "serve"])
def test_a_command_has_a_help_of_its_own(golem, command):
    code, out, _ = golem(command, "--help")
    assert code == 0
    assert out.startswith(f"usage: golem-host {command}")
    assert "--parallel" not in out and len(out.splitlines()) < 12
    assert ("--json" in out) == (command in JSON_COMMANDS)


def test_help_shows_enabled_plugins_and_help_all_everything(golem):
    assert "--pitch" not in golem("--help")[1]
    code, out, _ = golem("--enable", "speech", "--help")
    assert code == 0
    assert "flags of plugin speech:" in out
    assert "--pitch HZ                    Pitch. (default: 440)" in out
    assert "--context" not in out
    everything = golem("--help-all")[1]
    assert "--pitch" in everything
    assert "--context" in everything
    assert max(map(len, everything.splitlines())) <= 100


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pitch", "3"], "--pitch: belongs to plugin speech, which is not enabled; add it to --enable"),
        (["--enable", "chat", "--no-whisper"], "--no-whisper: belongs to plugin speech, which is not enabled"),
        (["config", "--enable", "chat", "--pich", "3"], "unknown flag --pich"),
        (["config", "--pich", "3"], "unknown flag --pich (did you mean '--pitch'?)"),
        (["config", "--pitch", "0"], "flag --pitch: expected a whole number of at least 1, got 0"),
        (["config", "--enable", "spech"], "no plugin named 'spech' is installed (did you mean 'speech'?)"),
        (["--enabl", "speech"], "unknown flag --enabl (did you mean '--enable'?)"),
        (["pull", "llama3"], "cannot pull 'llama3'; expected demo or hf.co/OWNER/REPO[:QUANT]"),
        (["plugins", "--pitch", "3"], "--pitch: belongs to plugin speech"),
    ],
)
def test_usage_errors(golem, words, message):
    code, out, err = golem(*words)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"golem-host: {message}")


def test_config_shows_values_sources_and_no_secrets(golem, tmp_path, monkeypatch):
    file = tmp_path / "golem.toml"
    file.write_text('enable = ["speech"]\npin = "0000"\n')
    monkeypatch.setenv("GOLEM_PITCH", "220")
    code, out, _ = golem("config", "--config", str(file), "--whisper", "--api-key", "hunter2", "--keep-alive", "-1")
    assert code == 0
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in out.splitlines()}
    assert rows["enable"] == ["speech", str(file)]
    assert rows["pin"] == ["***", str(file)]
    assert rows["pitch"] == ["220", "env GOLEM_PITCH"]
    assert rows["whisper"] == ["on", "flag --whisper"]
    assert rows["api-key"] == ["***", "flag --api-key"]
    assert rows["keep-alive"][0] == "for"
    assert rows["queue"] == ["512", "default"]
    values = json.loads(golem("config", "--config", str(file), "--json")[1])
    assert values["pitch"] == {"value": "220", "source": "env GOLEM_PITCH"}
    assert values["pin"]["value"] == "***"


def test_a_settings_file_may_not_name_what_is_not_enabled(golem, tmp_path):
    file = tmp_path / "golem.toml"
    file.write_text("pitch = 3\n")
    code, _, err = golem("config", "--enable", "chat", "--config", str(file))
    assert code == 2
    assert f"settings file {file}: pitch: belongs to plugin speech" in err


def test_models_lists_named_ones_and_the_folder(golem, tmp_path):
    named = tmp_path / "named.speech"
    named.write_text("good 5")
    deep = tmp_path / "home" / "owner" / "repo"
    deep.mkdir(parents=True)
    (deep / "kept.speech").write_text("good 5")
    (deep / "damaged.speech").write_text("bad 5")
    (deep / "other.txt").write_text("x")
    (deep / ".hidden.speech").write_text("good 5")
    code, out, _ = golem("models", "--enable", "speech", "--speech-model", f"voice={named}")
    assert code == 0
    rows = [line.split() for line in out.splitlines()[1:]]
    assert ["voice", "mimic", "6", "B", "F16", "speech", "yes", str(named)] in rows
    assert ["kept.speech", "mimic", "6", "B", "F16", "speech", "no", str(deep / "kept.speech")] in rows
    assert "cannot be served: tensor 'x' is missing" in out
    assert "other.txt" not in out
    assert "hidden" not in out
    entries = json.loads(golem("models", "--enable", "speech", "--speech-model", f"voice={named}", "--json")[1])
    assert {(entry["name"], entry["served"], entry["problem"] is None) for entry in entries} == {
        ("voice", True, True),
        ("kept.speech", False, True),
        ("damaged.speech", False, False),
    }


def test_models_fails_when_a_named_one_cannot_be_served(golem, tmp_path):
    named = tmp_path / "named.speech"
    named.write_text("bad 5")
    code, out, _ = golem("models", "--enable", "speech", "--speech-model", str(named))
    assert code == 1
    assert f"{named}\n" in out
    assert "cannot be served: tensor 'x' is missing" in out


def test_models_without_any(golem):
    code, out, _ = golem("models")
    assert code == 0
    assert "golem-host pull demo" in out


def test_check_tells_what_a_file_is(golem, tmp_path):
    file = tmp_path / "good.speech"
    file.write_text("good 5")
    code, out, _ = golem("check", str(file), "--pitch", "300")
    assert code == 0
    assert "plugin    speech" in out
    assert "pitch     300" in out
    assert f"golem-host --enable speech --speech-model {file}" in out
    found = json.loads(golem("check", "--json", str(file))[1])
    assert found["served"] is True
    assert found["plugins"][0]["problems"] == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("bad 5", "refused  tensor 'x' is missing"),
        ("mute", "refused  there is no voice in it"),
        (f"good {1 << 60}", "of memory, "),
    ],
)
def test_check_tells_why_a_file_would_be_refused(golem, tmp_path, content, reason):
    file = tmp_path / "m.speech"
    file.write_text(content)
    code, out, _ = golem("check", str(file))
    assert code == 1
    assert reason in out and f"size     {len(content)} B" in out
    assert json.loads(golem("check", str(file), "--json")[1])["served"] is False


def test_check_of_what_nobody_takes(golem, tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    code, out, _ = golem("check", str(tmp_path / "notes.txt"))
    assert code == 1
    assert "no plugin takes this (" in out
    code, _, err = golem("check", str(tmp_path / "absent"))
    assert (code, err) == (1, f"golem-host: {tmp_path / 'absent'}: no such file or directory\n")


def test_check_takes_a_name_in_the_model_folder(golem, tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "good.speech").write_text("good 5")
    code, out, _ = golem("check", "good.speech")
    assert (code, out.splitlines()[0]) == (0, str(folder / "good.speech"))
    code, _, err = golem("check", "absent")
    reason = f"neither here nor in the model folder {folder}; golem-host models lists what is there"
    assert (code, err) == (1, f"golem-host: absent: {reason}\n")


def test_a_reader_that_leaves_is_no_error(tmp_path):
    script = "import sys; from golem_host.cli import main; sys.exit(main(['--help-all']))"
    assert os.system(f'{sys.executable} -c "{script}" 2>{tmp_path / "err"} | true') == 0
    assert Path(tmp_path / "err").read_text() == ""


def test_devices_without_a_vulkan_loader(golem, monkeypatch):
    from golem_host.devices.vulkan import loader

    monkeypatch.setitem(loader.LIBRARIES, sys.platform, ["libnowhere.so.9"])
    monkeypatch.setattr(loader, "_instance", None)
    code, out, err = golem("devices")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("DEVICE ") and lines[1].startswith("cpu ")
    assert lines[-1].startswith("no Vulkan device: there is no Vulkan loader (libnowhere.so.9)")
    listed = json.loads(golem("devices", "--json")[1])
    assert [entry["device"] for entry in listed["devices"]] == ["cpu"]
    assert "libnowhere.so.9" in listed["vulkan_problem"]
    assert golem("devices", "--pitch", "3")[0] == 2


def test_serving_on_vulkan_without_a_loader(golem, monkeypatch, tmp_path):
    from golem_host.devices.vulkan import loader
    from golem_host.testing.tiny import tiny_gguf

    monkeypatch.setitem(loader.LIBRARIES, sys.platform, ["libnowhere.so.9"])
    monkeypatch.setattr(loader, "_instance", None)
    model = tiny_gguf(tmp_path / "tiny.gguf", "llama")
    code, out, err = golem("--enable", "chat", "--chat-model", str(model), "--chat-device", "vulkan:1")
    assert (code, out) == (1, "")
    assert err.startswith("golem-host: device vulkan:1: there is no Vulkan loader (libnowhere.so.9)")
    assert len(err.splitlines()) == 1
