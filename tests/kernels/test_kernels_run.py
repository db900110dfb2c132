"""Replaying passes: live rows, errors, threads."""

from __future__ import annotations

import os
import threading
import time
from typing import NamedTuple

import numpy as np
import pytest

from golem_host.kernels.library import KernelError, Op


class Arrays(NamedTuple):
    x: np.ndarray
    middle: np.ndarray
    out: np.ndarray


def chain(runner, n, rows, axis=-1):
    """out = ((x + x) * 2), as two commands; returns the commands and the arrays they use."""
    ffi = runner.kernels.ffi
    x, middle, out = (np.full((rows, n), value, np.float32) for value in (1, 0, 0))
    cmds = ffi.new("golem_cmd[2]")
    add = runner.command(Op.ADD, rows, [middle, x, x], [n, 0], axis=axis)
    scale = runner.command(Op.SCALE, rows, [out, middle], [n], [2.0], axis=axis)
    cmds[0], cmds[1] = add[0], scale[0]
    return cmds, Arrays(x, middle, out)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_commands_run_in_order(make_runner, threads):
    runner = make_runner(threads)
    cmds, arrays = chain(runner, 1024, 64)
    for _ in range(200):
        arrays.out[...] = 0
        runner.pool.run(cmds, 2, runner.kernels.ffi.NULL)
        assert (arrays.out == 4).all()


def test_live_rows(runner):
    cmds, arrays = chain(runner, 8, 5, axis=1)
    runner.pool.run(cmds, 2, runner.kernels.ffi.new("int64_t[]", [9, 3]))
    assert (arrays.out[:3] == 4).all() and not arrays.out[3:].any() and not arrays.middle[3:].any()


def test_no_live_rows_do_nothing(runner):
    """Whatever the constants are: nothing is looked at."""
    live = runner.kernels.ffi.new("int64_t[]", [0])
    for op in Op:
        runner.pool.run(runner.command(op, 4, [], axis=0), 1, live)
    runner.run(Op.ADD, 0, [])


@pytest.mark.parametrize("count", [-1, 6, 2**40])
def test_live_rows_beyond_the_capacity_are_refused(runner, count):
    cmds, arrays = chain(runner, 8, 5, axis=0)
    with pytest.raises(KernelError, match="live row count") as caught:
        runner.pool.run(cmds, 2, runner.kernels.ffi.new("int64_t[]", [count]))
    assert caught.value.command_index == 0
    assert not arrays.middle.any()


def test_an_error_names_its_command_and_stops_there(runner):
    cmds, arrays = chain(runner, 8, 5)
    cmds[1].op = 99
    with pytest.raises(KernelError, match="opcode") as caught:
        runner.pool.run(cmds, 2, runner.kernels.ffi.NULL)
    assert (caught.value.command_index, caught.value.code) == (1, 1)
    assert arrays.middle.all() and not arrays.out.any()


@pytest.mark.parametrize("op", [0, -1, max(Op) + 1, 2**31 - 1])
def test_unknown_opcodes_are_refused(runner, op):
    with pytest.raises(KernelError, match="opcode"):
        runner.run(op, 1, [])


@pytest.mark.parametrize("op", Op)
def test_missing_pointers_are_refused(runner, op):
    with pytest.raises(KernelError):
        runner.run(op, 1, [], [32] * 8, [1.0] * 8)


def test_an_axis_without_live_counts_is_refused(runner):
    with pytest.raises(KernelError, match="pointer"):
        runner.pool.run(runner.command(Op.COPY, 1, [], axis=0), 1, runner.kernels.ffi.NULL)


def test_a_pool_runs_one_pass_at_a_time(make_runner):
    """Four threads replay on one pool: each run either gives the right answer or says that the pool is busy."""
    runner = make_runner(2)
    busy, wrong = [], []

    def work():
        cmds, arrays = chain(runner, 4096, 64)
        for _ in range(50):
            arrays.out[...] = 0
            try:
                runner.pool.run(cmds, 2, runner.kernels.ffi.NULL)
            except KernelError as error:
                busy.append(error)
                continue
            if not (arrays.out == 4).all():
                wrong.append(arrays.out)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all("already running" in str(error) for error in busy)


def test_pools_side_by_side(make_runner):
    def work(runner, results):
        cmds, arrays = chain(runner, 4096, 64)
        for _ in range(50):
            runner.pool.run(cmds, 2, runner.kernels.ffi.NULL)
        results.append((arrays.out == 4).all())

    results: list[bool] = []
    threads = [threading.Thread(target=work, args=(make_runner(3), results)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 3


def native_threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="finds threads in /proc")
def test_closing_a_pool_ends_its_threads(kernels):
    before = native_threads()
    with kernels.pool(5):
        started = native_threads() - before
        assert len(started) == 4
    deadline = time.monotonic() + 10
    while started & native_threads():  # a joined thread is listed for a moment longer
        assert time.monotonic() < deadline


def test_a_closed_pool_refuses(kernels):
    pool = kernels.pool(3)
    pool.close()
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        pool.run(kernels.ffi.NULL, 0, kernels.ffi.NULL)


@pytest.mark.parametrize("threads", [0, -1, 257])
def test_pool_sizes(kernels, threads):
    with pytest.raises(ValueError, match="pool of"):
        kernels.pool(threads)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="finds threads in /proc")
def test_idle_workers_sleep(make_runner):
    before = native_threads()
    runner = make_runner(4)
    workers = native_threads() - before
    cmds, _arrays = chain(runner, 4096, 64)
    runner.pool.run(cmds, 2, runner.kernels.ffi.NULL)
    deadline = time.monotonic() + 10
    while {thread_state(worker) for worker in workers} != {"S"}:
        assert time.monotonic() < deadline


def thread_state(thread: str) -> str:
    """The letter of /proc: R runs or spins, S sleeps."""
    with open(f"/proc/self/task/{thread}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]
