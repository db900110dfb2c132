"""How much memory a picture takes at most, told before it is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from golem_host.weights import GgmlType, Tensor
from golem_host_krea2 import dit, encoder
from golem_host_krea2.blocks import block_weights, modulated
from golem_host_krea2.layer import PART_BYTES, LayerWeights, layer_bytes
from golem_host_krea2.picture import PictureRequest
from golem_host_krea2.tiles import TILE
from golem_host_krea2.vae import SCALE, Decoder, decoding

_FLOAT = 4
_QUERIES = 144
"""That a thread multiplies with the keys at a time."""
_PANEL = 32
"""Keys are laid out in multiples of that many at most."""
_LAID = 4 << 20
"""Of the kv heads' keys and values as many are laid out together; of one at least."""


def peak_bytes(backend: Any, request: PictureRequest) -> int:
    """Bytes beside what is mapped from the files: the largest of the stages, whose memory follows each other's."""
    files = request.files
    text = max(_encoder_bytes(backend, request, len(prompt.ids)) for prompt in request.prompts)
    kept = sum(
        _matrix_bytes(files.block(number)) for number in range(files.dit_hparams.layers) if _unkept(files, number)
    )
    drawing = _drawing_bytes(backend, request) + kept
    decoding = _decoding_bytes(backend, files.decoder, request) + kept
    return max(text, drawing, decoding) + 2 * PART_BYTES


def _attention_bytes(backend: Any, rows: int, head_dim: int) -> int:
    """Keys and values that are laid out for all threads, and of each some queries and their scores."""
    keys = rows + _PANEL
    return max(_LAID, 2 * keys * head_dim * _FLOAT) + backend.threads * _QUERIES * (keys + head_dim) * _FLOAT


def _of_each_type(layers: Iterable[LayerWeights]) -> Iterable[LayerWeights]:
    """One of the layers that share a recording."""
    return {tuple(each.types.items()): each for each in layers}.values()


def _unkept(files: Any, number: int) -> bool:
    return files.kept is not None and number not in files.kept


def _matrix_bytes(weights: Any) -> int:
    sizes = ((matrix.type, matrix.shape) for matrix in weights.matrices.values())
    return sum(math.prod(shape) // kind.block_size * kind.block_bytes for kind, shape in sizes)


def _encoder_bytes(backend: Any, request: PictureRequest, tokens: int) -> int:
    files, hparams = request.files, request.files.encoder_hparams
    layers = (encoder.layer_weights(files.encoder, hparams, number) for number in range(hparams.layers))
    layer = max(layer_bytes(backend, encoder.recorder(hparams, tokens), each) for each in _of_each_type(layers))
    taps = files.dit_hparams.taps * tokens * hparams.blocks.width * _FLOAT
    fusing = layer_bytes(
        backend,
        dit.layerwise_recorder(files.dit_hparams, tokens),
        block_weights(files.dit, "txtfusion.layerwise_blocks.0", files.dit_hparams.text),
    )
    attention = _attention_bytes(backend, tokens, hparams.blocks.head_dim)
    return max(layer + taps, fusing + 3 * taps) + attention


def _drawing_bytes(backend: Any, request: PictureRequest) -> int:
    files, hparams = request.files, request.files.dit_hparams
    patches = math.prod(request.latent) // dit.PATCH**2
    tokens = [len(prompt.ids) - prompt.leading for prompt in request.prompts]
    nothing = np.zeros((6, hparams.blocks.width), np.float32)
    record = dit.block_recorder(hparams, max(tokens) + patches)
    block = max(
        layer_bytes(backend, record, modulated(each, nothing)) - (0 if files.kept is None else _matrix_bytes(each))
        for each in _of_each_type(files.block(number) for number in range(hparams.layers))
    )
    rows = sum(count + patches for count in tokens) * (2 * hparams.blocks.width + hparams.blocks.head_dim) * _FLOAT
    first = layer_bytes(backend, dit.patches_recorder(hparams, patches), dit.patches_weights(files.dit, hparams))
    last = layer_bytes(backend, dit.last_recorder(hparams, patches), dit.last_weights(files.dit, hparams, nothing[0]))
    return block + rows + first + last + _attention_bytes(backend, max(tokens) + patches, hparams.blocks.head_dim)


def _decoding_bytes(backend: Any, decoder: Decoder, request: PictureRequest) -> int:
    height, width = request.latent
    shape = (min(height, TILE), min(width, TILE)) if request.tiled else (height, width)
    pixels = height * width * SCALE**2
    added = pixels * 4 * _FLOAT if request.tiled else 0
    picture = 2 * pixels * 3 * _FLOAT
    attention = _attention_bytes(backend, math.prod(shape), decoder.shapes["decoder.middle.1.norm.gamma"][0])
    return attention + decoder.weight_bytes + backend.bytes_of(decoding(_stand_ins(decoder), *shape)) + added + picture


def _stand_ins(decoder: Decoder) -> Mapping[str, Tensor]:
    nothing = np.empty(0, np.uint8)
    return {
        name: Tensor(name, shape, int(GgmlType.F32), Path(name), (GgmlType.F32, nothing))
        for name, shape in decoder.shapes.items()
    }
