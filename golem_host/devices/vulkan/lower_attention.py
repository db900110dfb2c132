"""Dispatches of rotary embedding and of attention over slot caches."""

from __future__ import annotations

from dataclasses import dataclass

from golem_host.devices.vulkan.cache import VulkanCache
from golem_host.devices.vulkan.dispatch import LIVE, Dispatch, Lower, Lowering
from golem_host.devices.vulkan.lower_elementwise import THREADS
from golem_host.ops.attention import Attention, CacheStore
from golem_host.ops.recording import Ref
from golem_host.ops.rope import Rope, RopeStyle

RANGE = 128
"""Positions whose result is made by itself and added to that of the positions before (`shaders/merge.glsl`)."""
CHUNKS = 4
"""Parts of a range whose sums of values are made by themselves (`shaders/attention.glsl`)."""
LANES = 16
"""Threads that make weights of a query's scores (`shaders/attention.glsl`)."""
TILE_QUERIES = 16
"""Queries that read keys and values together, at most."""
SHARED_MEMORY = 32 << 10
"""Bytes that a tile may take of a workgroup's memory, where the device has them."""
WIDEST_SPLIT = 16
"""Rows of the widest pass whose rows are shared between workgroups by ranges of positions. Wider ones have tiles for a
whole device, and the results of ranges would take much memory.
"""
ENOUGH_WORKGROUPS = 1024
"""Of a dispatch: about what fills a large device."""
MOST_SPLITS = 64
"""Workgroups that share a tile, at most."""


def _rope(_: Lowering, op: Rope, out: Ref, x: Ref, angles: Ref) -> list[Dispatch]:
    heads, head_dim = x.shape
    pairs = op.dims // 2
    numbers = [out.axis, heads, head_dim, pairs, int(op.style is RopeStyle.NEOX)]
    grid = (-(-heads * (head_dim - pairs) // THREADS), out.axis.capacity, 1)
    buffers = [out, x, angles, LIVE]
    return [Dispatch("rope", (THREADS,), buffers, numbers, grid, out.axis, [x, angles], out, in_place=[x])]


def _store(
    _: Lowering, op: CacheStore, out: None, cache: VulkanCache, k: Ref, v: Ref, slots: Ref, positions: Ref
) -> list[Dispatch]:
    words = cache.kv_heads * (-(-cache.key_dim // 2) + -(-cache.value_dim // 2))
    numbers = [k.axis, cache.slots, cache.kv_heads, cache.key_dim, cache.value_dim, cache.cells]
    buffers = [cache.keys, cache.values, k, v, slots, positions, LIVE]
    grid = (-(-words // THREADS), k.axis.capacity, 1)
    reads = [k, v, slots, positions]
    stores = [cache.keys, cache.values]
    return [Dispatch("store", (THREADS,), buffers, numbers, grid, k.axis, reads, None, stores=stores)]


@dataclass(frozen=True)
class Heads:
    """What queries attend: `kv_heads` heads, of each of which `group` query heads read keys and values."""

    kv_heads: int
    group: int
    key_dim: int
    value_dim: int

    @property
    def quads(self) -> int:
        """Fours of key dimensions."""
        return -(-self.key_dim // 4)

    @property
    def pairs(self) -> int:
        """Pairs of value dimensions."""
        return -(-self.value_dim // 2)


@dataclass(frozen=True)
class Tile:
    """The shape of a tile (`shaders/attention.glsl`), which leaves no trace in the result.

    `rows` of `heads` queries each, of which a thread takes `scored` and `summed` together. `splits` workgroups share
    its ranges, 1 when one takes them all; with `apart` a range's chunks are summed by different threads.
    """

    heads: int
    rows: int
    scored: int
    summed: int
    splits: int
    apart: bool

    @staticmethod
    def of(of: Heads, rows: int, ranges: int, room: int) -> Tile:
        """The tile for passes of `rows` rows that attend `ranges` ranges at most.

        The largest that fits `room` bytes of shared memory. Raises ValueError when none does.
        """
        for heads in (each for each in range(min(of.group, TILE_QUERIES), 0, -1) if of.group % each == 0):
            workgroups = rows * of.kv_heads * (of.group // heads)
            splits = min(ranges, MOST_SPLITS, -(-ENOUGH_WORKGROUPS // workgroups)) if rows <= WIDEST_SPLIT else 1
            for tile_rows in range(min(rows, TILE_QUERIES // heads), 0, -1):
                for apart in (True, False) if splits > 1 else (False,):
                    tile = _tile(of, heads, tile_rows, splits, apart)
                    if tile.shared_bytes(of) <= room:
                        return tile
        raise ValueError(
            f"heads of {of.key_dim} and {of.value_dim} values do not fit the {room} bytes that a workgroup shares"
        )

    def shared_bytes(self, of: Heads) -> int:
        """What the shader takes of a workgroup's memory."""
        queries = self.heads * self.rows
        summed = -(-queries // self.summed) * self.summed
        padded = max(summed, -(-queries // self.scored) * self.scored)
        sums = 1 if self.splits > 1 else summed * of.pairs
        if self.apart:
            sums = CHUNKS * summed * of.pairs
        return padded * (16 * of.quads + 4 * RANGE + 4 * LANES + 24) + 8 * sums


def _tile(of: Heads, heads: int, rows: int, splits: int, apart: bool) -> Tile:
    queries = heads * rows
    scored = _together(queries * RANGE, queries)
    summed = _together(queries * of.pairs * (CHUNKS if apart else 1), queries)
    return Tile(heads, rows, scored, summed, splits, apart)


def _together(items: int, queries: int) -> int:
    """How many of `queries` a thread takes together when it has its share of `items`: a power of two, at most 8."""
    together = 1
    while 2 * together <= min(8, items // THREADS, queries):
        together *= 2
    return together


def _attention(
    low: Lowering, op: Attention, out: Ref, q: Ref, cache: VulkanCache, slots: Ref, positions: Ref
) -> list[Dispatch] | None:
    if op.block > 1:
        return None
    heads, axis = q.shape[0], out.axis
    of = Heads(cache.kv_heads, heads // cache.kv_heads, cache.key_dim, cache.value_dim)
    # a row attends as many positions as there are cells, or as its window has, which may begin within a range
    ranges = -(-min(op.window, cache.cells) // RANGE) + 1 if op.window else -(-cache.cells // RANGE)
    tile = Tile.of(of, axis.capacity, ranges, min(low.gpu.limits.shared_memory, SHARED_MEMORY))
    split = tile.splits > 1
    partial = low.scratch(axis, heads, ranges, 2 + cache.value_dim) if split else out
    constants = (THREADS, cache.key_dim, cache.value_dim, cache.cells, tile.heads, tile.rows, tile.scored, tile.summed)
    buffers = [partial, q, cache.keys, cache.values, slots, positions, LIVE]
    shape = [cache.slots, of.kv_heads, of.group, ranges, op.window]
    numbers = [axis, *shape, float(op.scale), float(op.softcap)]
    grid = (tile.splits, heads // tile.heads, axis.capacity)
    reads = [q, slots, positions]
    first = Dispatch("attention", (*constants, split, tile.apart), buffers, numbers, grid, axis, reads, partial)
    if not split:
        return [first]
    buffers = [out, partial, positions, LIVE]
    numbers = [axis, heads, ranges, op.window]
    grid = (heads, axis.capacity, 1)
    reads = [partial, positions]
    merge = Dispatch("attention_merge", (THREADS, cache.value_dim), buffers, numbers, grid, axis, reads, out)
    return [first, merge]


LOWER: dict[type, Lower] = {
    Rope: _rope,
    CacheStore: _store,
    Attention: _attention,
}
