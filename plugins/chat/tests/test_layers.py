"""A model cut by its layers between two devices answers as on one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.devices.split import SplitBackend
from golem_host.testing.tiny import ARCHITECTURES, tiny_gguf
from golem_host.weights.gguf import open_gguf
from golem_host_chat.families import family_of
from golem_host_chat.layers import first_command, layer_count, weights, whole_cut
from golem_host_chat.passes import Columns, Passes, record
from golem_host_chat.slots import Slot


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("layer", [0, 1, "last"])
def test_a_model_cut_before_a_layer_has_the_same_logits(tmp_path: Path, architecture: str, layer: int | str) -> None:
    path = tiny_gguf(tmp_path / "m.gguf", architecture, quantization="Q8_0", window=8, rope_factors=False)
    backend = CpuBackend(threads=1)
    with open_gguf(path) as gguf:
        family, layers = family_of(gguf), layer_count(gguf.tensors)
        passes = Passes(family, backend, slots=1, context=8)
        at = whole_cut(passes._record(1), layers - 1) if layer == "last" else int(layer)
        split = SplitBackend(backend, CpuBackend(threads=1), partial(first_command, layer=at))
        shares: list[float] = []
        whole, cut = (Passes(family, each, slots=3, context=64) for each in (backend, split))
        cut.prepare(shares.append)
        for first in range(0, 20, 5):
            columns = Columns()
            columns.add(0, first, [3 + first, 4, 5, 6, 7], output=True)
            columns.add(2, first // 5, [9], output=True)
            np.testing.assert_array_equal(cut.run(columns).logits, whole.run(columns).logits)
        held = Slot(index=0, tokens=[3] * 20, high_water=19)
        for passes in (whole, cut):
            passes.memory.copy_slot(0, 1)
            passes.memory.restore(2, passes.memory.copy_whole(held))
        columns = Columns()
        for slot in (1, 2):
            columns.add(slot, 20, [5], output=True)
        np.testing.assert_array_equal(cut.run(columns).logits, whole.run(columns).logits)
        assert shares == sorted(shares) and shares[-1] == pytest.approx(1)


def test_blocks_of_a_file_that_are_not_computed_are_no_layers(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "m.gguf", "qwen35", delta_net={"predictors": 2})
    with open_gguf(path) as gguf:
        recording = Passes(family_of(gguf), CpuBackend(threads=1), slots=1, context=8)._record(1)
        assert layer_count(gguf.tensors) == 6
    assert layer_count(each.name for each in weights(recording)) == 4


def test_named_intermediates_are_read_from_the_half_that_makes_them(tmp_path: Path) -> None:
    backend = CpuBackend(threads=1)
    split = SplitBackend(backend, backend, partial(first_command, layer=1))
    with open_gguf(tiny_gguf(tmp_path / "m.gguf", "llama")) as gguf:
        family = family_of(gguf)
        found = []
        for each in (backend, split):
            caches = [each.cache(slots=1, cells=8, kv_heads=2, key_dim=16, value_dim=16) for _ in family.caches()]
            program = each.compile(record(family, caches, width=2, outputs=1, keep_names=True))
            program.inputs["tokens"][:] = [4, 5]
            program.inputs["positions"][:] = [0, 1]
            program.run({"columns": 2, "outputs": 1})
            found.append([program.read(f"l_out-{layer}") for layer in range(2)])
    for whole, cut in zip(*found, strict=True):
        np.testing.assert_array_equal(cut, whole)


def test_layers_that_share_a_cache_stay_together(tmp_path: Path) -> None:
    backend, other = CpuBackend(threads=1), CpuBackend(threads=1)
    split = SplitBackend(backend, other, partial(first_command, layer=1))
    cache = split.cache(slots=1, cells=8, kv_heads=2, key_dim=16, value_dim=16)
    with pytest.raises(ValueError, match="not on a device yet"):
        cache.copy_slot(0, 0)
    with open_gguf(tiny_gguf(tmp_path / "m.gguf", "llama")) as gguf:
        family = family_of(gguf)
        with pytest.raises(ValueError, match="share keys and values"):
            split.compile(record(family, [cache] * len(family.caches()), width=1, outputs=1))


def test_where_layers_read_each_others_cache_a_cut_goes_before_them(tmp_path: Path) -> None:
    """Of seven layers the last two read keys and values of the two before them."""
    with open_gguf(tiny_gguf(tmp_path / "m.gguf", "gemma4")) as gguf:
        recording = Passes(family_of(gguf), CpuBackend(threads=1), slots=1, context=8)._record(1)
    assert [whole_cut(recording, layer) for layer in range(8)] == [0, 1, 2, 3, 3, 3, 3, 7]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_last_layer_feeds_forward_only_the_rows_whose_logits_are_wanted(tmp_path: Path, architecture: str) -> None:
    with open_gguf(tiny_gguf(tmp_path / "m.gguf", architecture, rope_factors=False)) as gguf:
        passes = Passes(family_of(gguf), CpuBackend(threads=1), slots=2, context=64)
        axes = [ref.axis.name for name, ref in passes._record(8).names.items() if name.startswith("l_out-")]
        assert axes[0] == "columns" and axes[-1] == "outputs"
        columns = Columns()
        columns.add(1, 0, [3, 4, 5, 6, 7], output=False)
        assert not len(passes.run(columns).logits)
