"""The expert mixture, at every instruction set: routes against numpy, products bit for bit those of MATMUL with the
chosen expert's matrix, sums against numpy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golem_host.kernels.library import KernelError, Op, Weighting
from golem_host.weights.types import GgmlType

ROUTE = np.dtype([("expert", np.int32), ("weight", np.float32)])


def route(runner, logits, used, weighting=Weighting.SOFTMAX_CHOSEN, factor=1.0, scale=None):
    out = np.full((len(logits), used), -7, np.int32).repeat(2, -1).view(ROUTE)
    runner.run(Op.ROUTE, len(logits), [out, logits, scale], [logits.shape[1], used, weighting], [factor])
    return out


def expected_routes(logits, used, weighting, factor, scale):
    """Experts and float64 weights."""
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :used]
    chosen = np.take_along_axis(logits.astype(np.float64), order, -1)
    if weighting is Weighting.SIGMOID:
        weights = 1 / (1 + np.exp(-chosen))
    else:
        over = chosen if weighting is Weighting.SOFTMAX_CHOSEN else logits.astype(np.float64)
        weights = np.exp(chosen - chosen[:, :1]) / np.exp(over - chosen[:, :1]).sum(-1, keepdims=True)
    return order, weights * factor * (1 if scale is None else scale[order])


@pytest.mark.parametrize("weighting", Weighting)
@pytest.mark.parametrize(("experts", "used"), [(8, 2), (128, 8), (7, 7), (1, 1), (33, 5)])
def test_routes(runner, rng, weighting, experts, used):
    logits = (3 * rng.standard_normal((50, experts))).astype(np.float32)
    scale = rng.uniform(0.5, 2, experts).astype(np.float32)
    for each in (None, scale):
        routes = route(runner, logits, used, weighting, 2.5, each)
        order, weights = expected_routes(logits, used, weighting, 2.5, each)
        assert np.array_equal(routes["expert"], order)
        np.testing.assert_allclose(routes["weight"], weights, rtol=1e-6)


def test_equal_logits_go_to_the_lower_expert_and_nan_comes_last(runner):
    nan, inf = np.nan, np.inf
    logits = np.array([[1, 3, 3, 1, 3], [0, -0.0, 0, 0, 0], [nan, 2, nan, -inf, 2], [nan] * 5], np.float32)
    for used in range(1, 6):
        chosen = route(runner, logits, used)["expert"]
        order = np.array([[1, 2, 4, 0, 3], [0, 1, 2, 3, 4], [1, 4, 3, 0, 2], [0, 1, 2, 3, 4]])
        assert np.array_equal(chosen, order[:, :used])


def test_what_becomes_of_a_nan_shows(runner):
    """A softmax over all that has a NaN among them is none; a chosen NaN weighs NaN."""
    logits = np.array([[1, np.nan, 0]], np.float32)
    assert np.isnan(route(runner, logits, 2, Weighting.SOFTMAX)["weight"]).all()
    assert np.isfinite(route(runner, logits, 2, Weighting.SOFTMAX_CHOSEN)["weight"]).all()
    assert np.isnan(route(runner, logits, 3, Weighting.SIGMOID)["weight"]).tolist() == [[False, False, True]]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(experts=st.integers(1, 40), rows=st.integers(1, 9), data=st.data(), weighting=st.sampled_from(Weighting))
def test_routes_stay_in_bounds_and_ignore_their_company(runner, guarded, experts, rows, data, weighting):
    used = data.draw(st.integers(1, experts))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    logits, scale = (
        guarded(rng.standard_normal((rows, experts)).astype(np.float32)),
        guarded(np.ones(experts, np.float32)),
    )
    out = guarded(np.zeros((rows, used), ROUTE))
    runner.run(Op.ROUTE, rows, [out, logits, scale], [experts, used, weighting], [1.0])
    for r in range(rows):
        assert route(runner, logits[r : r + 1], used, weighting).tobytes() == out[r : r + 1].tobytes()


def random_routes(rng, rows, used, experts):
    """Different experts in each row, of any weight."""
    routes = np.zeros((rows, used), ROUTE)
    routes["expert"] = np.argsort(rng.random((rows, experts)), -1)[:, :used]
    routes["weight"] = rng.standard_normal((rows, used))
    return routes


class Stack:
    """Random matrices of `experts` experts, `stride` rows of k values each; products take m from row `first`."""

    def __init__(self, make_weights, rng, type_name, experts, m, k, stride=None, first=0):
        self.experts, self.m, self.k, self.first = experts, m, k, first
        self.stride = stride or m
        self.weights = make_weights(rng, type_name, experts * self.stride, k)
        self.type = self.weights.type

    def ints(self, used, inner):
        return [self.m, self.k, self.type, self.experts, used, inner, self.stride, self.first]


def experts(runner, stack, x, routes):
    """x f32 (rows, inner, k) times the chosen matrices: (rows, used, m)."""
    (rows, used), inner = routes.shape, x.shape[1]
    kind = runner.kernels.act_kind(stack.type)
    activations = np.zeros((rows, inner, runner.kernels.act_bytes(kind, stack.k)), np.uint8)
    runner.run(Op.ACT, rows, [activations, x], [stack.k, kind, inner])
    out = np.full((rows, used, stack.m), np.nan, np.float32)
    runner.run(Op.EXPERTS, rows, [out, activations, routes, stack.weights.packed], stack.ints(used, inner))
    return out


def one_by_one(runner, stack, x, routes):
    """The same with a MATMUL for each row and slot."""
    out = np.zeros((*routes.shape, stack.m), np.float32)
    kind = runner.kernels.act_kind(stack.type)
    activations = np.zeros((*routes.shape, runner.kernels.act_bytes(kind, stack.k)), np.uint8)
    commands = []
    for r, s in np.ndindex(routes.shape):
        at = routes["expert"][r, s] * stack.stride + stack.first
        matrix = stack.weights.packed[at : at + stack.m]
        commands.append((Op.ACT, 1, [activations[r, s], x[r, s % x.shape[1]]], [stack.k, kind]))
        commands.append((Op.MATMUL, 1, [out[r, s], activations[r, s], matrix, None], [stack.m, stack.k, stack.type]))
    runner.run_all(commands)
    return out


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("inner", ["shared", "each"])
def test_bits_are_those_of_plain_products(runner, weight_type, make_weights, rng, inner):
    stack = Stack(make_weights, rng, weight_type, 5, 83, 512)
    routes = random_routes(rng, 11, 3, 5)
    x = floats(rng, 11, 1 if inner == "shared" else 3, 512)
    assert experts(runner, stack, x, routes).tobytes() == one_by_one(runner, stack, x, routes).tobytes()


@pytest.mark.parametrize(("first", "stride"), [(0, 64), (32, 64), (3, 40)])
def test_some_rows_of_each_matrix(runner, make_weights, rng, first, stride):
    stack = Stack(make_weights, rng, "Q4_K", 4, 32, 256, stride, first)
    routes, x = random_routes(rng, 6, 2, 4), floats(rng, 6, 1, 256)
    assert experts(runner, stack, x, routes).tobytes() == one_by_one(runner, stack, x, routes).tobytes()


@pytest.mark.parametrize("type_name", ["Q4_0", "Q6_K", "F32"])
@pytest.mark.parametrize("choice", ["one for all", "all for each", "the same one in each slot", "the last"])
def test_uneven_choices(runner, make_weights, rng, type_name, choice):
    stack = Stack(make_weights, rng, type_name, 6, 48, 256)
    routes = random_routes(rng, 9, 6 if choice == "all for each" else 2, 6)
    if choice == "one for all":
        routes["expert"][:, 0], routes["expert"][:, 1] = 3, np.arange(9) % 3
    elif choice == "the same one in each slot":
        routes["expert"] = np.arange(9)[:, None] % 6
    elif choice == "the last":
        routes["expert"] = 5
    x = floats(rng, 9, routes.shape[1], 256)
    assert experts(runner, stack, x, routes).tobytes() == one_by_one(runner, stack, x, routes).tobytes()


def test_alone_equals_batched(runner, weight_type, make_weights, rng):
    stack = Stack(make_weights, rng, weight_type, 4, 40, 256)
    routes, x = random_routes(rng, 19, 2, 4), floats(rng, 19, 2, 256)
    together = experts(runner, stack, x, routes)
    for rows in (1, 2, 7):
        for at in range(0, 19, rows):
            part = slice(at, at + rows)
            assert experts(runner, stack, x[part], routes[part]).tobytes() == together[part].tobytes()


@pytest.mark.parametrize("rows", [1, 4, 40])
def test_threads_do_not_matter(make_runner, make_weights, rng, rows):
    """Enough work to be cut, also at one row. Twice: what a thread keeps from one command is not the next one's."""
    stack = Stack(make_weights, rng, "Q4_0", 8, 531, 512)
    runners = [make_runner(threads) for threads in (1, 2, 3)]
    for _ in range(2):
        routes, x = random_routes(rng, rows, 4, 8), floats(rng, rows, 1, 512)
        found = {experts(runner, stack, x, routes).tobytes() for runner in runners}
        assert found == {one_by_one(runners[0], stack, x, routes).tobytes()}


def test_quantized_bits_are_the_same_on_every_instruction_set(runner, portable, block_type, make_weights, rng):
    stack = Stack(make_weights, rng, block_type, 3, 50, 512)
    routes, x = random_routes(rng, 7, 2, 3), floats(rng, 7, 2, 512)
    assert experts(runner, stack, x, routes).tobytes() == experts(portable, stack, x, routes).tobytes()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    m=st.integers(1, 70),
    blocks=st.integers(1, 4),
    rows=st.integers(1, 9),
    count=st.integers(1, 6),
    each=st.booleans(),
    data=st.data(),
)
def test_odd_shapes_stay_in_bounds(runner, block_type, make_weights, guarded, m, blocks, rows, count, each, data):
    used = data.draw(st.integers(1, count))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    k = blocks * GgmlType[block_type].block_size
    stack = Stack(make_weights, rng, block_type, count, m, k)
    routes, x = guarded(random_routes(rng, rows, used, count)), guarded(floats(rng, rows, used if each else 1, k))
    expected = one_by_one(runner, stack, x, routes)
    stack.weights.packed = guarded(stack.weights.packed)
    kind = runner.kernels.act_kind(stack.type)
    activations = guarded(np.zeros((rows, x.shape[1], runner.kernels.act_bytes(kind, k)), np.uint8))
    runner.run(Op.ACT, rows, [activations, x], [k, kind, x.shape[1]])
    out = guarded(np.full((rows, used, m), np.nan, np.float32))
    runner.run(Op.EXPERTS, rows, [out, activations, routes, stack.weights.packed], stack.ints(used, x.shape[1]))
    assert out.tobytes() == expected.tobytes()


def lay(runner, stack):
    """Each expert's matrix re-laid, one after the other; None where the instruction set has no layout for the type."""
    size = runner.kernels.laid_bytes(stack.type, stack.stride, stack.k)
    if not size:
        return None
    memory = np.zeros(stack.experts * size + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :][: stack.experts * size]
    for expert in range(stack.experts):
        matrix = np.ascontiguousarray(stack.weights.packed[expert * stack.stride : (expert + 1) * stack.stride])
        at = slice(expert * size, (expert + 1) * size)
        runner.run(Op.LAY, stack.stride, [memory[at], matrix], [stack.k, stack.type])
    return memory


@pytest.mark.parametrize(("m", "stride", "first"), [(83, 83, 0), (32, 96, 32), (21, 64, 16)])
@pytest.mark.parametrize("rows", [1, 9])
def test_laid_equals_stored(runner, block_type, make_weights, rng, guarded, m, stride, first, rows):
    stack = Stack(make_weights, rng, block_type, 5, m, 512, stride, first)
    routes, x = random_routes(rng, rows, 3, 5), floats(rng, rows, 1, 512)
    expected = experts(runner, stack, x, routes)
    laid = lay(runner, stack)
    if laid is None:
        with pytest.raises(KernelError, match="type"):
            run_laid(runner, stack, x, routes, stack.weights.packed)
        return
    assert run_laid(runner, stack, x, routes, guarded(laid)).tobytes() == expected.tobytes()


def run_laid(runner, stack, x, routes, laid):
    rows, used = routes.shape
    out = np.full((rows, used, stack.m), np.nan, np.float32)
    activations = runner.activations(runner.kernels.act_kind(stack.type), x[:, 0])
    runner.run(Op.EXPERTS, rows, [out, activations, routes, laid], [*stack.ints(used, 1), 1])
    return out


def test_laid_matrices_on_any_number_of_threads(make_runner, make_weights, rng):
    stack = Stack(make_weights, rng, "Q4_K", 8, 531, 512)
    routes, x = random_routes(rng, 40, 4, 8), floats(rng, 40, 1, 512)
    runners = [make_runner(threads) for threads in (1, 2, 3)]
    laid = lay(runners[0], stack)
    if laid is not None:
        found = {run_laid(runner, stack, x, routes, laid).tobytes() for runner in runners}
        assert found == {experts(runners[0], stack, x, routes).tobytes()}


def test_laid_rows_begin_with_a_tile(runner, make_weights, rng):
    stack = Stack(make_weights, rng, "Q4_0", 2, 16, 32, 64, 8 - 1)
    laid = lay(runner, stack)
    if laid is not None:
        with pytest.raises(KernelError, match="size"):
            run_laid(runner, stack, floats(rng, 1, 1, 32), random_routes(rng, 1, 1, 2), laid)


@pytest.mark.parametrize("expert", [-1, 4, 2**31 - 1, -(2**31)])
def test_an_expert_that_is_not_there_is_refused(runner, make_weights, rng, expert):
    stack = Stack(make_weights, rng, "F32", 4, 8, 8)
    routes, out = random_routes(rng, 3, 2, 4), np.full((3, 2, 8), 7, np.float32)
    routes["expert"][2, 1] = expert
    with pytest.raises(KernelError, match="expert outside"):
        runner.run(Op.EXPERTS, 3, [out, floats(rng, 3, 8), routes, stack.weights.packed], stack.ints(2, 1))
    assert (out == 7).all()


@pytest.mark.parametrize(
    ("slot", "value", "match"),
    [
        (0, 0, "size"),
        (0, 9, "size"),  # more rows than a matrix has
        (1, 33, "size"),  # no whole blocks
        (2, 99, "type"),
        (3, 0, "size"),
        (3, 2**17, "size"),
        (4, 0, "size"),
        (5, 0, "size"),
        (5, 3, "size"),  # neither one x for all slots nor one each
        (6, 7, "size"),
        (7, 1, "size"),
        (7, -1, "size"),
        (7, 2**62, "size"),
        (8, 2, "type"),
        (8, -1, "type"),
    ],
)
def test_experts_constants_out_of_range_are_refused(runner, make_weights, rng, slot, value, match):
    stack = Stack(make_weights, rng, "Q8_0", 4, 8, 32)
    ints, out = [*stack.ints(2, 1), 0], np.full((1, 2, 8), 7, np.float32)
    ints[slot] = value
    x = runner.activations(runner.kernels.act_kind(stack.type), floats(rng, 1, 32))
    with pytest.raises(KernelError, match=match):
        runner.run(Op.EXPERTS, 1, [out, x, random_routes(rng, 1, 2, 4), stack.weights.packed], ints)
    assert (out == 7).all()


@pytest.mark.parametrize(
    ("ints", "match"), [([4, 0, 0], "size"), ([4, 5, 0], "size"), ([4, 2, 3], "type"), ([2**17, 2, 0], "size")]
)
def test_route_constants_out_of_range_are_refused(runner, rng, ints, match):
    out = np.zeros((1, 5), ROUTE)
    with pytest.raises(KernelError, match=match):
        runner.run(Op.ROUTE, 1, [out, floats(rng, 1, 4)], ints, [1.0])
    assert not out.view(np.int32).any()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(1, 100), rows=st.integers(1, 9), used=st.integers(1, 8), seed=st.integers(0, 2**32 - 1))
def test_mix(runner, guarded, n, rows, used, seed):
    rng = np.random.default_rng(seed)
    routes, y = guarded(random_routes(rng, rows, used, used)), guarded(floats(rng, rows, used, n))
    out = guarded(np.full((rows, n), np.nan, np.float32))
    runner.run(Op.MIX, rows, [out, y, routes], [n, used])
    expected = routes["weight"][:, :1] * y[:, 0]
    for slot in range(1, used):
        expected = expected + routes["weight"][:, slot : slot + 1] * y[:, slot]
    assert out.tobytes() == expected.tobytes()


def test_activation_rows_of_every_slot(runner, rng):
    """ACT of R rows of `inner` vectors is ACT of R * inner rows."""
    x = floats(rng, 5, 3, 64)
    for kind in (1, 2, 4):
        out = np.zeros((15, runner.kernels.act_bytes(kind, 64)), np.uint8)
        runner.run(Op.ACT, 5, [out, x], [64, kind, 3])
        assert out.tobytes() == runner.activations(kind, x.reshape(15, 64)).tobytes()
