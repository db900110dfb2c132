"""Families that other plugins bring: the example of docs/families.md as it stands there, and plugins with faults."""

from __future__ import annotations

import asyncio
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from family_forward import apart, forward
from golem_host import plugins
from golem_host.api import ModelFileError, PluginError
from golem_host.check import identify
from golem_host.devices.cpu import CpuBackend
from golem_host.testing.distributions import write_distribution
from golem_host.testing.inprocess import running, settings_of
from golem_host.testing.tiny import tiny_gguf, tokenizer_keys, write_gguf
from golem_host.testing.tiny_vocab import vocabulary
from golem_host_chat.families import ARCHITECTURES
from golem_host_chat.families.third_party import Brought, brought
from oracle_client import Oracle

DOCUMENT = Path(__file__).parents[3] / "docs" / "families.md"
FILES = dict(re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL))
WIDTH, HEADS, KV_HEADS, INNER = 64, 4, 2, 96


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example, as if by pip."""
    folder = tmp_path / "site"
    monkeypatch.syspath_prepend(folder)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    write_distribution(folder, project["name"], plugins=project["entry-points"]["golem_host"], modules={})
    yield folder
    for module in [each for each in sys.modules if each.split(".")[0] == "golem_olmo2"]:
        del sys.modules[module]


def olmo2(path: Path) -> Path:
    """A tiny random checkpoint of OLMo 2."""
    words, random = vocabulary("llama", "bpe"), np.random.default_rng(5)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    def norm(size: int) -> np.ndarray:
        return (1 + 0.2 * random.standard_normal(size)).astype(np.float32)

    keys = {
        "context_length": 256,
        "embedding_length": WIDTH,
        "block_count": 2,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 5e5,
    }
    tensors = {"token_embd.weight": matrix(len(words), WIDTH), "output.weight": matrix(len(words), WIDTH)}
    key_width = WIDTH // HEADS * KV_HEADS
    for layer in range(2):
        block = {
            **{"attn_q": matrix(WIDTH, WIDTH), "attn_k": matrix(key_width, WIDTH), "attn_v": matrix(key_width, WIDTH)},
            **{"attn_q_norm": norm(WIDTH), "attn_k_norm": norm(key_width), "attn_output": matrix(WIDTH, WIDTH)},
            **{"ffn_gate": matrix(INNER, WIDTH), "ffn_up": matrix(INNER, WIDTH), "ffn_down": matrix(WIDTH, INNER)},
            **{"post_attention_norm": norm(WIDTH), "post_ffw_norm": norm(WIDTH)},
        }
        tensors |= {f"blk.{layer}.{role}.weight": value for role, value in block.items()}
    tensors["output_norm.weight"] = 4 * norm(WIDTH)
    metadata = {f"olmo2.{name}": value for name, value in keys.items()} | tokenizer_keys(words)
    return write_gguf(path, "olmo2", metadata, tensors, "F32", {}, random=random)


def test_the_example_is_short_and_whole() -> None:
    assert list(FILES) == ["golem_olmo2/plugin.py", "golem_olmo2/family.py", "pyproject.toml"]
    assert sum(text.count("\n") for text in FILES.values()) < 200
    assert DOCUMENT.read_text().count("\n") < 200


@pytest.mark.usefixtures("installed")
def test_the_example_serves_a_file(tmp_path: Path) -> None:
    path = olmo2(tmp_path / "tiny.gguf")
    enabled = plugins.load(["chat", "olmo2"])
    settings = settings_of(tmp_path, {"chat-model": str(path), "context": "128"}, enabled.settings())
    assert [found.problems for found in identify(path, enabled, settings)] == [()]

    async def answer() -> tuple[int, str]:
        async with running(settings, enabled) as (_, client):
            body = {"prompt": "Hello world", "max_tokens": 6, "temperature": 0}
            response = await client.post("/v1/completions", json=body, timeout=60)
            return response.status_code, response.json()["choices"][0]["text"]

    status, text = asyncio.run(answer())
    assert status == 200 and text


@pytest.mark.usefixtures("installed")
def test_without_it_the_file_is_refused(tmp_path: Path) -> None:
    path = olmo2(tmp_path / "tiny.gguf")
    enabled = plugins.load(["chat"])
    settings = settings_of(tmp_path, {}, enabled.settings())
    ((problem,),) = (found.problems for found in identify(path, enabled, settings))
    assert problem.endswith(f"family 'olmo2' are not served; families served: {', '.join(sorted(ARCHITECTURES))}")


@pytest.mark.usefixtures("installed")
def test_a_refusal_lists_the_families_of_all(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "m.gguf", metadata={"general.architecture": "mamba"})
    enabled = plugins.load(["olmo2", "chat"])
    ((problem,),) = (found.problems for found in identify(path, enabled, settings_of(tmp_path, {}, enabled.settings())))
    assert ", olmo2, " in problem and "llama, " in problem


@pytest.mark.oracle
@pytest.mark.usefixtures("installed")
def test_the_example_is_llama_cpps_olmo2(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path, tokens = olmo2(tmp_path / "tiny.gguf"), np.random.default_rng(1).integers(3, 256, 48).tolist()
    others = brought(plugins.load(["chat", "olmo2"]), ARCHITECTURES)
    found = forward(path, tokens, each_backend, others=others)["logits"]
    # As `family_checks.FLOAT_TOLERANCE`: half-precision roundings that fall the other way.
    assert apart(found, oracle.llama("logits", path, tokens=tokens, every=True)["logits"]) < 5e-4


def plugin_of(folder: Path, name: str, families: str, modules: dict[str, str] | None = None) -> None:
    """Install a plugin whose hook gives the expression `families`."""
    source = f"""
from golem_host.api import hookimpl
GOLEM_HOST_API = 1
@hookimpl(optionalhook=True)
def golem_chat_families():
    return {families}
"""
    module = f"plugin_{name}_{abs(hash(folder))}"
    write_distribution(folder, f"golem-{name}", plugins={name: module}, modules={module: source, **(modules or {})})


@pytest.mark.parametrize(
    ("families", "message"),
    [
        ("{'llama': 'a:B'}", "plugin bad: family 'llama' is served by plugin chat itself"),
        ("{'good': 'a:B'}", "family 'good' is brought by plugin first and by plugin bad"),
        ("{'new': 'a.B'}", "plugin bad: family 'new' is at 'a.B', not at package.module:Class"),
        ("{'new': 7}", "plugin bad: family 'new' is at 7"),
        ("['new']", r"plugin bad: golem_chat_families gives \['new'\]; a mapping is expected"),
        ("1 / 0", r"plugin bad \(golem-bad 1.0\) failed in golem_chat_families: ZeroDivisionError"),
    ],
)
def test_families_that_cannot_be_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, families: str, message: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    plugin_of(tmp_path, "first", "{'good': 'a:B'}")
    plugin_of(tmp_path, "bad", families)
    assert brought(plugins.load(["chat", "first"]), ARCHITECTURES) == {"good": Brought("first", "a:B")}
    with pytest.raises(PluginError, match=message):
        brought(plugins.load(["chat", "first", "bad"]), ARCHITECTURES)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "AttributeError: module '.*' has no attribute 'Made'"),
        ("import a_module_nobody_has", "ModuleNotFoundError: No module named 'a_module_nobody_has'"),
        ("def Made(gguf): return gguf.metadata['nothing']", "KeyError: 'nothing'"),
        ("def Made(gguf): return 7", "of plugin odd gives no golem_host_chat.families.Family"),
    ],
)
def test_a_faulty_family_costs_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = f"family_{abs(hash(tmp_path))}"
    plugin_of(tmp_path, "odd", f"{{'strange': '{module}:Made'}}", {module: source})
    enabled = plugins.load(["chat", "odd"])
    settings = settings_of(tmp_path, {}, enabled.settings())
    strange = tiny_gguf(tmp_path / "strange.gguf", metadata={"general.architecture": "strange"})
    ((problem,),) = (found.problems for found in identify(strange, enabled, settings))
    assert re.search(message, problem) and "plugin odd" in problem
    assert not identify(tiny_gguf(tmp_path / "plain.gguf"), enabled, settings)[0].problems
    named = settings_of(tmp_path, {"chat-model": str(strange)}, enabled.settings())
    with pytest.raises(ModelFileError, match=message):
        enabled.ask("chat", "golem_models", settings=named)
