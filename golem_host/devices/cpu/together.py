"""Products of the same input run together: one job for the compute threads instead of one each."""

from __future__ import annotations

from dataclasses import dataclass, field

from golem_host.devices.cpu.lowering import Step
from golem_host.kernels.library import Op as Kernel
from golem_host.ops.recording import Ref

MOST = 8
"""Products that the kernels take together (`Matmuls::kMost`)."""


@dataclass
class _Group:
    quantizing: list[Step] = field(default_factory=list)
    products: list[Step] = field(default_factory=list)


def together(steps: list[Step]) -> list[Step]:
    """`steps` with every product moved up to the first one of its input, and marked to run with the next.

    A product reads nothing but its input and weights, so that it may run as soon as its input is there.
    """
    order: list[Step | _Group] = []
    groups: dict[Ref, _Group] = {}
    for step in steps:
        group = None if step.multiplied is None else groups.get(step.multiplied)
        if group is not None and step.kernel is Kernel.ACT:
            group.quantizing.append(step)
        elif group is not None and len(group.products) < MOST:
            group.products.append(step)
        elif step.multiplied is not None and step.kernel is Kernel.MATMUL:
            groups[step.multiplied] = group = _Group(products=[step])
            order.append(group)
        else:
            order.append(step)
    arranged: list[Step] = []
    for each in order:
        if isinstance(each, Step):
            arranged.append(each)
            continue
        for step in each.products[:-1]:
            step.with_next = True
        arranged += each.quantizing + each.products
    return arranged
