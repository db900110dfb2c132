"""Who may import whom, read from the sources; and what the light commands really import."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from golem_host.testing.distributions import write_distribution
from golem_host.testing.tiny_bert import tiny_bert_directory, tiny_bert_gguf

ROOT = Path(__file__).parents[1]
HOST = ROOT / "golem_host"
PLUGINS = sorted(path for path in ROOT.glob("plugins/*/golem_host_*") if path.is_dir())

PUBLIC = (
    "golem_host.api",
    "golem_host.config",
    "golem_host.deprecation",
    "golem_host.devices.cells",
    "golem_host.devices.device",
    "golem_host.devices.names",
    "golem_host.devices.split",
    "golem_host.devices.state",
    "golem_host.digests",
    "golem_host.errors",
    "golem_host.hookspecs",
    "golem_host.host",
    "golem_host.http",
    "golem_host.lanes",
    "golem_host.memory",
    "golem_host.ops",
    "golem_host.printable",
    "golem_host.registry",
    "golem_host.testing",
    "golem_host.text",
    "golem_host.weights",
)
"""What a plugin may import: these modules and, for packages, all that is in them."""

TORCH = ("golem_host.devices.cpu", "golem_host.devices.vulkan", "golem_host.ops")
"""The only parts of the host that may name torch: imported once a model is loaded."""


def modules(package: Path, root: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        yield name, ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module a tree imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used here"
            assert node.module is not None
            # `from golem_host.http import health` imports a module too.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def inside(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def test_the_sources_are_found():
    assert (HOST / "api.py").is_file()
    assert PLUGINS


def test_the_host_imports_no_plugin():
    guilty = [
        f"{module} imports {name}"
        for module, tree in modules(HOST, ROOT)
        for name in imports(tree)
        if name.startswith("golem_host_")
    ]
    assert not guilty


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_plugins_import_only_themselves_and_what_is_public(plugin):
    guilty = [
        f"{module} imports {name}"
        for module, tree in modules(plugin, plugin.parent)
        for name in imports(tree)
        if name.split(".")[0].startswith("golem_host") and not inside(name, (plugin.name, *PUBLIC))
    ]
    assert not guilty


def test_torch_is_named_only_where_models_compute():
    guilty = [
        module
        for module, tree in modules(HOST, ROOT)
        if any(inside(name, ("torch",)) for name in imports(tree)) and not inside(module, TORCH)
    ]
    assert not guilty


REPORT = """
import sys
from golem_host.cli import main
code = main(sys.argv[2:])
found = sorted(name for name in sys.argv[1].split(",") if name in sys.modules)
if found:
    sys.exit(f"imported: {found}")
sys.exit(code)
"""


@pytest.fixture
def run(tmp_path):
    """Run a command in a new interpreter; fails when it imports one of the modules named first."""

    def command(forbidden: str, *words: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GOLEM_")}
        paths = filter(None, (str(site) if site else "", os.environ.get("PYTHONPATH")))
        return subprocess.run(
            [sys.executable, "-c", REPORT, forbidden, *words],
            env={**kept, "GOLEM_HOME": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(paths)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return command


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--enable", "chat", "--help"],
        ["--enable", "embed", "--help"],
        ["--help-all"],
        ["plugins"],
        ["models"],
        ["config"],
        ["--version"],
    ],
    ids=" ".join,
)
def test_light_commands_import_no_torch_and_no_server(run, words):
    done = run("torch,granian,litestar", *words)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_public_names_are_there_and_importing_them_costs_nothing(tmp_path):
    heavy = "from golem_host import api; import sys; print('litestar' in sys.modules); "
    every = "[getattr(api, name) for name in api.__all__]; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", heavy + every], capture_output=True, text=True, timeout=120)
    assert (done.stdout.split(), done.stderr) == (["False", "False"], "")


@pytest.mark.real
def test_check_and_models_of_a_real_file_import_no_torch(run, smollm2_path):
    done = run("torch,granian,litestar", "check", str(smollm2_path))
    assert done.returncode == 0, done.stderr
    assert "llama" in done.stdout
    done = run("torch,granian,litestar", "models", "--chat-model", str(smollm2_path))
    assert done.returncode == 0, done.stderr
    assert smollm2_path.stem in done.stdout


@pytest.mark.parametrize("kind", ["directory", "gguf"])
def test_check_and_models_of_an_encoder_import_no_torch_and_no_chat(run, tmp_path, kind):
    make = {"directory": tiny_bert_directory, "gguf": tiny_bert_gguf}[kind]
    path = make(tmp_path / "encoder.gguf" if kind == "gguf" else tmp_path / "encoder")
    done = run("torch,granian,litestar", "check", str(path))
    assert done.returncode == 0, done.stderr
    assert "embeddings" in done.stdout
    done = run("torch,granian,litestar,golem_host_chat", "models", "--enable", "embed", "--embed-model", str(path))
    assert done.returncode == 0, done.stderr
    assert "encoder" in done.stdout


def test_enabling_one_plugin_imports_no_other(run, tmp_path):
    source = "from golem_host.api import hookimpl\nGOLEM_HOST_API = 1\n"
    site = tmp_path / "site"
    write_distribution(
        site,
        "golem-pair",
        plugins={"first": "pair_first", "second": "pair_second"},
        modules={"pair_first": source, "pair_second": source},
    )
    done = run("pair_second,golem_host_chat", "config", "--enable", "first", site=site)
    assert done.returncode == 0, done.stderr
    assert "first" in done.stdout
    done = run("pair_first,golem_host_chat", "config", "--enable", "first", site=site)
    assert "imported: ['pair_first']" in done.stderr, "the check itself would not notice"
