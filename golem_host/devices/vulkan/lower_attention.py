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
"""Positions that a workgroup takes together (`shaders/attention_order.glsl`)."""
CHUNK = 64
"""Positions whose sum of values is made by itself (`shaders/attention_order.glsl`)."""
SUMMED = 1024
"""Positions whose sum of weights is made by itself (`shaders/attention_order.glsl`)."""
LANES = 16
"""Parts of such a sum."""
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
    its ranges, 1 when one takes them all.
    """

    heads: int
    rows: int
    scored: int
    summed: int
    splits: int

    @staticmethod
    def of(of: Heads, rows: int, ranges: int, room: int) -> Tile:
        """The tile for passes of `rows` rows that attend `ranges` ranges at most.

        The largest that fits `room` bytes of shared memory. Raises ValueError when none does.
        """
        for heads in (each for each in range(min(of.group, TILE_QUERIES), 0, -1) if of.group % each == 0):
            workgroups = rows * of.kv_heads * (of.group // heads)
            splits = min(ranges, MOST_SPLITS, -(-ENOUGH_WORKGROUPS // workgroups)) if rows <= WIDEST_SPLIT else 1
            for tile_rows in range(min(rows, TILE_QUERIES // heads), 0, -1):
                tile = _tile(of, heads, tile_rows, splits)
                if tile.shared_bytes(of) <= room:
                    return tile
        raise ValueError(
            f"heads of {of.key_dim} and {of.value_dim} values do not fit the {room} bytes that a workgroup shares"
        )

    def shared_bytes(self, of: Heads) -> int:
        """What the shader takes of a workgroup's memory, of several the one that takes most."""
        queries = self.heads * self.rows
        keys = 16 * of.quads * -(-queries // self.scored) * self.scored
        summed = -(-queries // self.summed) * self.summed
        if self.splits > 1:
            return max(keys + queries * 4 * (RANGE + LANES), summed * 4 * RANGE + queries * 4)
        return keys + summed * (4 * RANGE + 8 * of.pairs) + queries * (8 * LANES + 16)


def _tile(of: Heads, heads: int, rows: int, splits: int) -> Tile:
    queries = heads * rows
    scored = _together(queries * RANGE, queries)
    summed = _together(queries * of.pairs * (RANGE // CHUNK if splits > 1 else 1), queries)
    return Tile(heads, rows, scored, summed, splits)


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
    ranges = _touched(op, _most_keys(op, cache), RANGE)
    tile = Tile.of(of, axis.capacity, ranges, min(low.gpu.limits.shared_memory, SHARED_MEMORY))
    if tile.splits > 1:
        return _shared(low, op, out, q, cache, slots, positions, tile)
    tiled = (tile.heads, tile.rows, tile.scored, tile.summed)
    constants = (THREADS, cache.key_dim, cache.value_dim, cache.cells, *tiled, op.softcap > 0)
    buffers = [out, q, cache.keys, cache.values, slots, positions, LIVE]
    numbers = [axis, cache.slots, of.kv_heads, of.group, op.window, float(op.scale), float(op.softcap)]
    grid = (1, heads // tile.heads, axis.capacity)
    return [Dispatch("attention", constants, buffers, numbers, grid, axis, [q, slots, positions], out)]


def _shared(
    low: Lowering, op: Attention, out: Ref, q: Ref, cache: VulkanCache, slots: Ref, positions: Ref, tile: Tile
) -> list[Dispatch]:
    """Tiles whose ranges are shared between workgroups, in four steps."""
    heads, axis = q.shape[0], out.axis
    keys = _most_keys(op, cache)
    ranges, chunks, sums = _touched(op, keys, RANGE), _touched(op, keys, CHUNK), -(-keys // SUMMED)
    stride = keys + ranges + sums
    scores, weights = (low.scratch(axis, heads, stride) for _ in range(2))
    parts = low.scratch(axis, heads, chunks, cache.value_dim)
    shape = [cache.slots, cache.kv_heads, heads // cache.kv_heads, op.window]
    grid = (tile.splits, heads // tile.heads, axis.capacity)
    where = [slots, positions, LIVE]

    tiled = (cache.cells, tile.heads, tile.rows)
    constants = (THREADS, cache.key_dim, *tiled, tile.scored, keys, stride, op.softcap > 0)
    buffers = [scores, q, cache.keys, *where]
    numbers = [axis, *shape, float(op.scale), float(op.softcap)]
    reads = [q, slots, positions]
    first = Dispatch("attention_scores", constants, buffers, numbers, grid, axis, reads, scores)

    constants = (THREADS, keys, ranges, stride)
    buffers = [weights, scores, positions, LIVE]
    numbers, reads = [axis, heads, op.window], [scores, positions]
    every = (sums, heads, axis.capacity)
    second = Dispatch("attention_weights", constants, buffers, numbers, every, axis, reads, weights, in_place=[scores])

    constants = (THREADS, cache.value_dim, *tiled, tile.summed, keys, ranges, stride, chunks)
    buffers = [parts, weights, cache.values, *where]
    reads = [weights, slots, positions]
    third = Dispatch("attention_values", constants, buffers, [axis, *shape], grid, axis, reads, parts)

    constants, buffers = (THREADS, cache.value_dim, chunks), [out, parts, positions, LIVE]
    every = (heads, axis.capacity, 1)
    last = Dispatch("attention_sum", constants, buffers, numbers, every, axis, [parts, positions], out)
    return [first, second, third, last]


def _most_keys(op: Attention, cache: VulkanCache) -> int:
    """Positions that a row attends at most."""
    return min(op.window, cache.cells) if op.window else cache.cells


def _touched(op: Attention, keys: int, size: int) -> int:
    """How many stretches of `size` positions a row attends at most: with a window the first may begin before it."""
    return -(-keys // size) + (1 if op.window else 0)


LOWER: dict[type, Lower] = {
    Rope: _rope,
    CacheStore: _store,
    Attention: _attention,
}
