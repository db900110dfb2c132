"""The expert mixture: kernels against twins, and whole mixtures against the blocks of transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from golem_host.ops import Recording, Ref, Weighting
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType
from ops_checks import activations, agree, run, weight
from oracle_client import Oracle

WIDTH, INNER, EXPERTS, USED = 64, 96, 8, 3


@pytest.fixture(scope="module")
def native() -> CpuBackend:
    if library.load() is None:
        pytest.skip("the native kernels were not built")
    return CpuBackend(threads=2)


@pytest.fixture(scope="module")
def twin() -> CpuBackend:
    return CpuBackend(threads=1, native=False)


@pytest.fixture(params=["native", "twin"])
def backend(request: pytest.FixtureRequest) -> CpuBackend:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("weighting", Weighting)
@pytest.mark.parametrize(("experts", "used"), [(128, 8), (8, 2), (5, 5), (1, 1)])
def test_routes(native: CpuBackend, twin: CpuBackend, weighting: Weighting, experts: int, used: int) -> None:
    logits = np.round(2 * activations(20, experts), 1)  # coarse: many are equal
    scale = weight("F32", experts)
    found, expected = (
        run(each, lambda x: ops.route(x, used, weighting, factor=1.5, scale=scale), {"x": logits})
        for each in (native, twin)
    )
    np.testing.assert_array_equal(found[..., 0], expected[..., 0])
    np.testing.assert_allclose(found[..., 1].view(np.float32), expected[..., 1].view(np.float32), rtol=1e-6)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q2_K", "Q4_K", "Q6_K", "IQ4_XS"])
@pytest.mark.parametrize("slots", [1, USED], ids=["shared", "each"])
def test_expert_linear(native: CpuBackend, twin: CpuBackend, kind: str, slots: int) -> None:
    stack = weight(kind, EXPERTS, 40, 512)

    def build(x: Ref, logits: Ref) -> Ref:
        return ops.expert_linear(x, ops.route(logits, USED, Weighting.SOFTMAX), stack)

    inputs = {"x": activations(9, slots, 512), "logits": activations(9, EXPERTS, seed=3)}
    agree(native, twin, build, inputs, units=4096 if kind == "Q4_1" else 512)


def test_each_row_is_a_product_with_its_experts_matrices(backend: CpuBackend) -> None:
    stack = weight("Q8_0", 4, 24, 64)
    inputs = {"x": activations(7, 64), "logits": activations(7, 4, seed=2)}
    routes = run(backend, lambda logits: ops.route(logits, 2, Weighting.SOFTMAX), {"logits": inputs["logits"]})

    def build(x: Ref, logits: Ref) -> Ref:
        return ops.expert_linear(x, ops.route(logits, 2, Weighting.SOFTMAX), stack)

    found = run(backend, build, inputs)
    for expert in range(4):
        plain = run(backend, lambda x, e=expert: ops.linear(x, stack.matrix(e)), {"x": inputs["x"]})
        row, slot = np.nonzero(routes[..., 0] == expert)
        np.testing.assert_array_equal(found[row, slot], plain[row])


def test_fused_matrices_are_read_in_halves(backend: CpuBackend) -> None:
    """Rows of each expert's matrix: the halves of a fused gate and up side by side are the whole."""
    fused, down = weight("Q4_0", EXPERTS, 2 * INNER, WIDTH), weight("F16", EXPERTS, WIDTH, INNER)

    def halves(h: Ref, logits: Ref) -> Ref:
        routes = ops.route(logits, USED, Weighting.SOFTMAX_CHOSEN)
        gate, up = (ops.expert_linear(h, routes, fused, half) for half in (range(INNER), range(INNER, 2 * INNER)))
        return ops.mix(ops.expert_linear(ops.swiglu(gate, up), routes, down), routes)

    def whole(h: Ref, logits: Ref) -> Ref:
        routes = ops.route(logits, USED, Weighting.SOFTMAX_CHOSEN)
        both = ops.expert_linear(h, routes, fused)
        gate, up = (
            ops.torch_op(
                lambda x, at=half: x[..., at * INNER : (at + 1) * INNER], both, axis=both.axis, shape=(USED, INNER)
            )
            for half in (0, 1)
        )
        return ops.mix(ops.expert_linear(ops.swiglu(gate, up), routes, down), routes)

    inputs = {"h": activations(5, WIDTH), "logits": activations(5, EXPERTS, seed=3)}
    np.testing.assert_array_equal(run(backend, halves, inputs), run(backend, whole, inputs))


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_mixture(native: CpuBackend, twin: CpuBackend, kind: str) -> None:
    """All of it, in a recording with room for more rows than live."""
    router = weight("F32", EXPERTS, WIDTH, seed=1)
    gate, up, down = (
        weight(kind, EXPERTS, *shape, seed=at + 2)
        for at, shape in enumerate([(INNER, WIDTH), (INNER, WIDTH), (WIDTH, INNER)])
    )

    def build(h: Ref) -> Ref:
        routes = ops.route(ops.linear(h, router), USED, Weighting.SOFTMAX_CHOSEN)
        inner = ops.swiglu(ops.expert_linear(h, routes, gate), ops.expert_linear(h, routes, up))
        return ops.mix(ops.expert_linear(inner, routes, down), routes)

    # An activation on the border of two codes may be rounded either way.
    agree(native, twin, build, {"h": activations(17, WIDTH)}, units=64 if kind == "F32" else 2**18)


def tensor(values: NDArray[np.float32]) -> Tensor:
    data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
    return Tensor("given", values.shape, GgmlType.F32, Path("given"), (GgmlType.F32, data))


SHARED = ("gate_proj", "up_proj", "down_proj")


@pytest.mark.oracle
@pytest.mark.parametrize("family", ["qwen3_moe", "qwen3_moe unnormalized", "mixtral", "qwen3_5_moe", "gemma4"])
def test_mixture_of_transformers(tmp_path: Path, oracle: Oracle, backend: CpuBackend, family: str) -> None:
    rng = np.random.default_rng(11)

    def matrix(*shape: int) -> NDArray[np.float32]:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    name, unnormalized = family.split()[0], "unnormalized" in family
    x = activations(33, WIDTH)
    given = {
        "gate.weight": 2 * matrix(EXPERTS, WIDTH),
        "experts.gate_up_proj": matrix(EXPERTS, 2 * INNER, WIDTH),
        "experts.down_proj": matrix(EXPERTS, WIDTH, INNER),
    }
    settings = {}
    if name == "qwen3_moe":
        settings = {"norm_topk_prob": not unnormalized}
    elif name == "qwen3_5_moe":
        settings = {"shared_expert_intermediate_size": INNER}
        given |= {f"shared_expert.{each}.weight": matrix(INNER, WIDTH) for each in SHARED[:2]}
        given |= {"shared_expert.down_proj.weight": matrix(WIDTH, INNER), "shared_expert_gate.weight": matrix(1, WIDTH)}
    elif name == "gemma4":
        given["router.proj.weight"] = 16 * given.pop("gate.weight")
        given["router.scale"] = rng.uniform(0.5, 2, WIDTH).astype(np.float32)
        given["router.per_expert_scale"] = rng.uniform(0.5, 2, EXPERTS).astype(np.float32)
    weights = tmp_path / "mixture.npz"
    np.savez(weights, allow_pickle=False, x=x, **given)
    expected = oracle.mixture(weights, family=name, used=USED, settings=settings)
    w = {key: tensor(value) for key, value in given.items()}

    def build(h: Ref) -> Ref:
        if name == "gemma4":
            scaled = ops.scale(ops.rms_norm(h, w["router.scale"], 1e-6), WIDTH**-0.5)
            logits = ops.linear(scaled, w["router.proj.weight"])
            routes = ops.route(logits, USED, Weighting.SOFTMAX_CHOSEN, scale=w["router.per_expert_scale"])
        else:
            weighting = Weighting.SOFTMAX if unnormalized else Weighting.SOFTMAX_CHOSEN
            routes = ops.route(ops.linear(h, w["gate.weight"]), USED, weighting)
        fused, act = w["experts.gate_up_proj"], ops.geglu if name == "gemma4" else ops.swiglu
        gate, up = (ops.expert_linear(h, routes, fused, rows) for rows in (range(INNER), range(INNER, 2 * INNER)))
        out = ops.mix(ops.expert_linear(act(gate, up), routes, w["experts.down_proj"]), routes)
        if name == "qwen3_5_moe":
            gate, up, down = (w[f"shared_expert.{each}.weight"] for each in SHARED)
            shared = ops.linear(ops.swiglu(ops.linear(h, gate), ops.linear(h, up)), down)
            always = ops.route(ops.linear(h, w["shared_expert_gate.weight"]), 1, Weighting.SIGMOID)
            out = ops.add(out, ops.mix(shared.reshape(1, WIDTH), always))
        return out

    found = run(backend, build, {"h": x})
    # Gemma's GELU takes and gives half precision here.
    limit = 2e-3 if name == "gemma4" else 1e-6
    assert np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)) < limit


def test_a_mixture_that_does_not_fit_is_refused() -> None:
    recording = Recording()
    axis = recording.axis("rows", 2)
    logits, x = recording.input("logits", axis, 4, dtype="f32"), recording.input("x", axis, 32, dtype="f32")
    routes = ops.route(logits, 2, Weighting.SOFTMAX)
    with pytest.raises(ValueError, match="5 of 4 experts"):
        ops.route(logits, 5, Weighting.SOFTMAX)
    with pytest.raises(ValueError, match=r"shape \(3,\), the router has 4 experts"):
        ops.route(logits, 2, Weighting.SOFTMAX, scale=weight("F32", 3))
    with pytest.raises(ValueError, match="not a matrix for each expert"):
        ops.expert_linear(x, routes, weight("F32", 4, 32))
    with pytest.raises(ValueError, match="does not take rows of"):
        ops.expert_linear(x, routes, weight("F32", 4, 8, 31))
    integers = Tensor("ids", (4, 8, 32), GgmlType.I32, Path("given"), (GgmlType.I32, np.zeros(4096, np.uint8)))
    with pytest.raises(ValueError, match="ids is stored as I32"):
        ops.expert_linear(x, routes, integers)
    for rows in (range(9), range(-1, 4), range(4, 4), range(0, 8, 2)):
        with pytest.raises(ValueError, match="has no rows"):
            ops.expert_linear(x, routes, weight("F32", 4, 8, 32), rows)
    with pytest.raises(ValueError, match="one vector for each of 2 experts"):
        ops.mix(x, routes)


def test_a_route_to_no_expert_fails_the_pass(backend: CpuBackend) -> None:
    """A router with more outputs than there are matrices."""
    stack = weight("F32", 2, 8, 16)

    def build(x: Ref, logits: Ref) -> Ref:
        return ops.expert_linear(x, ops.route(logits, 1, Weighting.SOFTMAX), stack)

    logits = np.array([[0, 0, 1]], np.float32)
    with pytest.raises((library.KernelError, ValueError), match="expert outside|no matrix 2"):
        run(backend, build, {"x": activations(1, 16), "logits": logits})
