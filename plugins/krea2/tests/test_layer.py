"""One layer's memory: shared by those that follow, and given back without waiting for the collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping

import numpy as np

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.ops import Recording, Ref
from golem_host.weights import Tensor
from golem_host_krea2.layer import Layer, LayerWeights, layer_bytes
from krea2_checks import result
from ops_checks import activations, weight


def make(recording: Recording, w: Mapping[str, Tensor]) -> Mapping[str, Ref]:
    x = recording.input("x", recording.axis("rows", 50), 64, dtype="f32")
    return {"y": ops.add_row(ops.linear(x, w["w"], rounds=w["w"].type.name == "Q8_0"), w["b"])}


def test_layers_of_one_type_share_memory_and_others_take_their_own() -> None:
    backend = CpuBackend(threads=2)
    x = activations(50, 64)
    layer = Layer(backend, make)
    for kind, seed in (("BF16", 1), ("BF16", 2), ("Q8_0", 3), ("BF16", 1)):
        matrix, bias = weight(kind, 96, 64, seed=seed), np.arange(96, dtype=np.float32)
        before = layer._staged
        result(layer.bring(LayerWeights({"w": matrix}, {"b": bias})))
        assert (layer._staged is before) == (seed == 2)
        result(layer.run({"x": x}, {"rows": 50}))
        recording = Recording()
        y = ops.linear(recording.input("x", recording.axis("rows", 50), 64, dtype="f32"), matrix, rounds=kind == "Q8_0")
        recording.output("y", y)
        program = backend.compile(recording)
        program.inputs["x"][:] = x
        program.run({"rows": 50})
        np.testing.assert_array_equal(layer.output("y"), program.output("y") + bias)


def test_memory_is_given_back_at_once_and_told_before() -> None:
    backend = CpuBackend(threads=1)
    weights = LayerWeights({"w": weight("F32", 96, 64)}, {"b": np.zeros(96, np.float32)})
    told = layer_bytes(backend, make, weights)
    assert told >= 4 * (96 * 64 + 96 + 50 * (64 + 96))
    gc.disable()
    try:
        layer = Layer(backend, make)
        result(layer.bring(weights))
        result(layer.run({"x": activations(50, 64)}, {"rows": 50}))
        held = weakref.ref(layer._staged.tensors["w"])
        assert layer._staged.nbytes <= told
        del layer
        assert held() is None
    finally:
        gc.enable()
