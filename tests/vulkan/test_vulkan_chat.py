"""The chat engine on a device: the CPU's bits and text for the dense families, logits near the CPU's for the others,
answers that do not depend on company.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from family_forward import apart, forward
from golem_host.devices.cpu import CpuBackend
from golem_host.devices.split import SplitBackend
from golem_host.devices.vulkan.backend import VulkanBackend
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.testing.tiny import tiny_gguf
from golem_host.testing.tiny_folded import fold
from golem_host.weights.gguf import open_gguf
from golem_host_chat.families import family_of
from golem_host_chat.layers import first_command
from golem_host_chat.passes import Columns, Passes
from golem_host_chat.sampling_params import SamplingParams
from test_engine import GREEDY, Engine, tiny
from test_five_turns import Talk

CHECKPOINTS = {
    **{"llama": "Q8_0", "mistral3": "Q8_0", "smollm3": "F16", "qwen2": "Q4_0", "qwen3": "Q4_1", "qwen3moe": "Q4_0"},
    **{"gemma2": "Q8_0", "gemma3": "F32", "gemma4": "F32", "qwen35moe": "Q8_0"},
}
"""Family and type of the weights; Q8_0 and Q4_1 activations are rounded in blocks of 32."""
DENSE = {
    **{"llama": "F32", "mistral3": "Q5_K", "smollm3": "F16", "qwen2": "Q4_0", "qwen3": "Q4_K", "gemma2": "Q8_0"},
    **{"gemma3": "Q4_1", "gemma4": "Q6_K"},
}
"""Families that give the CPU's bits, with a type of the weights."""
NEAR = 0.03
"""Root mean square of the difference to the CPU's logits over that of the values, of families that mix experts or keep
states: their sums have other orders, and every activation is rounded to 8 bits before a product, which carries a last
bit far. The CPU's own twins lie as far from its kernels.
"""


@pytest.fixture(scope="module")
def backend(gpu: Gpu) -> VulkanBackend:
    return VulkanBackend(gpu)


@pytest.fixture(scope="module")
def cpu() -> CpuBackend:
    return CpuBackend(threads=2)


@pytest.fixture(scope="module", params=list(CHECKPOINTS))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / f"{request.param}.gguf"
    return tiny_gguf(
        path,
        request.param,
        quantization=CHECKPOINTS[request.param],
        window=8,
        context=256,
        fused=request.param == "qwen2",
    )


@pytest.mark.parametrize("family", DENSE)
def test_every_layer_has_the_cpus_bits(family: str, tmp_path: Path, backend: VulkanBackend, cpu: CpuBackend) -> None:
    for kind in ("F32", DENSE[family]):
        sizes: dict[str, Any] = {"width": 256, "feed_forward": 256} if kind.endswith("K") else {}
        path = tiny_gguf(tmp_path / f"{kind}.gguf", family, quantization=kind, window=8, context=256, **sizes)
        tokens = np.random.default_rng(1).integers(3, 60, 41).tolist()
        found, expected = (forward(path, tokens, each, chunk=9) for each in (backend, cpu))
        assert found.keys() == expected.keys() and "logits" in found
        assert not [name for name in found if not np.array_equal(found[name], expected[name])]


@pytest.mark.parametrize("family", sorted(CHECKPOINTS.keys() - DENSE.keys()))
def test_logits_of_other_families_are_near_the_cpus(
    family: str, tmp_path: Path, backend: VulkanBackend, cpu: CpuBackend
) -> None:
    path = tiny_gguf(tmp_path / "m.gguf", family, quantization=CHECKPOINTS[family], window=8, context=256)
    tokens = np.random.default_rng(1).integers(3, 60, 21).tolist()
    found, expected = (forward(path, tokens, each, chunk=9)["logits"] for each in (backend, cpu))
    assert apart(found, expected) < NEAR


@pytest.mark.parametrize("kind", ["Q1_0", "PTQ1_0"])
def test_folded_weights_of_few_bits(kind: str, tmp_path: Path, backend: VulkanBackend, cpu: CpuBackend) -> None:
    sizes: dict[str, Any] = {"width": 256, "feed_forward": 256, "tied": False, "context": 256}
    path = tiny_gguf(tmp_path / "m.gguf", "qwen35", quantization=kind, change=partial(fold, block=128), **sizes)
    tokens = np.random.default_rng(1).integers(3, 60, 21).tolist()
    found, expected = (forward(path, tokens, each, chunk=9) for each in (backend, cpu))
    assert apart(found["logits"], expected["logits"]) < NEAR
    assert not twins(path, backend)


def test_nothing_of_these_families_runs_as_a_twin(checkpoint: Path, backend: VulkanBackend) -> None:
    assert not twins(checkpoint, backend)


def twins(checkpoint: Path, backend: VulkanBackend) -> list[Any]:
    """What a pass of one column and of many leaves to the processor."""
    with open_gguf(checkpoint) as gguf:
        passes = Passes(family_of(gguf), backend, slots=2, context=32)
        steps = [step for width in (1, 16) for step in passes.program(width)._steps]
        return [step.command for step in steps if step.command is not None]


def test_logits_have_the_same_bits_however_the_prompt_is_cut_and_in_whatever_company(
    checkpoint: Path, backend: VulkanBackend
) -> None:
    engine = Engine(checkpoint, backend)  # one for all: slots begin anew at position 0

    def logits(cuts: list[int], company: bool) -> np.ndarray:
        prompt, other = engine.prompt(40, 1), engine.prompt(40, 2)
        at, rows = 0, np.empty((0, 0), np.float32)
        for cut in [*cuts, len(prompt)]:
            columns = Columns()
            if company:
                columns.add(3, at, other[at:cut], output=True)
            columns.add(1, at, prompt[at:cut], output=True)
            rows = engine.passes.run(columns).logits
            at = cut
        return rows[-1].copy()

    whole = logits([], False)
    assert np.isfinite(whole).all() and whole.std() > 0
    for cuts, company in (([1], False), ([39], True), ([7, 8, 33], True), (list(range(1, 40)), False)):
        np.testing.assert_array_equal(logits(cuts, company), whole)


def test_four_conversations_at_once_and_one_by_one(checkpoint: Path, backend: VulkanBackend) -> None:
    engine = Engine(checkpoint, backend)
    prompts = [engine.prompt(length, seed) for seed, length in enumerate((1, 5, 40, 23))]
    hot = SamplingParams(temperature=1.5, seed=7, repeat_penalty=1.3)
    rules = [hot if i % 2 else GREEDY for i in range(4)]
    alone = [engine.answer(p, params=r, reuse=False).tokens for p, r in zip(prompts, rules, strict=True)]
    jobs = [engine.submit(p, params=r, reuse=False) for p, r in zip(prompts, rules, strict=True)]
    engine.run()
    assert [job.value.tokens for job in jobs] == alone


def test_a_kept_prefix_and_a_copied_one_give_the_same_answer(checkpoint: Path, backend: VulkanBackend) -> None:
    engine = Engine(checkpoint, backend, context=256)
    first = engine.prompt(90, 1)
    longer = [*first[:80], *engine.prompt(10, 2)]
    fresh = engine.answer(longer, reuse=False)
    for slot in engine.stepper._slots:
        slot.forget()
    engine.answer(first)
    kept = engine.answer(longer)
    # A state has no past: there is a copy of it only from where prompts have parted once.
    assert kept.cached_tokens == (0 if engine.passes.memory.layout.recurrent else 80) and kept.tokens == fresh.tokens
    engine.stepper._slots[kept.slot].busy = True  # so that its prefix is copied
    copied = engine.answer(longer)
    assert copied.slot != kept.slot and copied.cached_tokens >= 80 and copied.tokens == fresh.tokens


@pytest.mark.parametrize("family", ["gemma3", "recurrent"])
def test_conversations_go_on_from_copies_in_the_hosts_memory(
    family: str, tmp_path: Path, backend: VulkanBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "widest_pass", 8)  # so that windows of 8 are soon overwritten
    path = tiny(tmp_path, family)
    talk = Talk(lambda **more: Engine(path, backend, slots=1, context=256, **more), cache_bytes=None)
    first, _ = talk.ask(talk.message(60))
    _, cached = talk.ask([*first, *talk.message()])
    assert cached == len(first) - 1
    second, cached = talk.ask([*first, *talk.message()])
    assert cached == len(first) - 1, "from the checkpoint there"
    talk.ask(talk.message(70))
    _, cached = talk.ask([*second, *talk.message()])
    assert cached == len(second) - 1, "from what was kept when the slot went to another"


@pytest.mark.parametrize("layer", [0, 1])
def test_a_model_split_between_device_and_cpu_has_the_cpus_bits(
    tmp_path: Path, backend: VulkanBackend, cpu: CpuBackend, layer: int
) -> None:
    path = tiny_gguf(tmp_path / "m.gguf", "gemma3", quantization="Q4_0", window=8, context=256)
    split = SplitBackend(cpu, backend, partial(first_command, layer=layer))
    tokens = np.random.default_rng(2).integers(3, 60, 12).tolist()
    found, expected = (forward(path, tokens, each, chunk=7) for each in (split, cpu))
    assert found.keys() == expected.keys()
    np.testing.assert_array_equal(found["logits"], expected["logits"])


PROMPTS = (
    "The capital of France is",
    "Once upon a time, there was a little",
    "def fibonacci(n):",
    "The best way to learn a language is",
    "In 1969, Neil Armstrong",
    "Dear Sir or Madam,",
    "It was a dark and stormy night, and",
    "SELECT name FROM users WHERE",
    "Bonjour, je m'appelle",
    "To be or not to be,",
)


def greedy(path: Path, backend: Any) -> list[list[int]]:
    engine = Engine(path, backend, slots=len(PROMPTS), context=96)
    jobs = [engine.submit(engine.tokenizer.encode(text), tokens=32) for text in PROMPTS]
    engine.run()
    return [job.value.tokens for job in jobs]


@pytest.mark.parametrize("kind", ["F32", "Q4_K"])
def test_greedy_text_of_random_weights_is_the_cpus(
    kind: str, tmp_path: Path, backend: VulkanBackend, cpu: CpuBackend
) -> None:
    """The logits of random weights lie so near to each other that any rounding shows."""
    path = tiny_gguf(tmp_path / "qwen3.gguf", "qwen3", quantization=kind, context=256, width=256, feed_forward=256)
    assert greedy(path, backend) == greedy(path, cpu)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["smollm2_path", "gemma3_path"])
def test_greedy_text_is_the_cpus(
    model: str, request: pytest.FixtureRequest, backend: VulkanBackend, cpu: CpuBackend
) -> None:
    path = request.getfixturevalue(model)
    assert greedy(path, backend) == greedy(path, cpu)
