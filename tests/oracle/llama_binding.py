"""llama.cpp through the C symbols that the xllamacpp wheel exports (oracle interpreter only).

The wheel's Python API offers a server alone; the C interface gives what comparisons need: full float32 logits of every
position, and a callback that sees each named intermediate (`attn_norm-0`, `Qcur-0`, `attn_out-0`, `l_out-0`,
`result_norm`). Structures follow include/llama.h of xllamacpp 2026.10.11549; `load` checks their layout against the
library's own default values, so that another version is an error and not a wrong number.
"""

from __future__ import annotations

import ctypes as c
import sys
from collections.abc import Sequence

import numpy as np
import xllamacpp

F32, F16, Q8_0 = 0, 1, 8
"""ggml types of a key/value cache."""


class ModelParams(c.Structure):
    _fields_ = (
        ("devices", c.c_void_p),
        ("tensor_buft_overrides", c.c_void_p),
        ("n_gpu_layers", c.c_int32),
        ("split_mode", c.c_int32),
        ("load_mode", c.c_int32),
        ("lazy_mode", c.c_int32),
        ("main_gpu", c.c_int32),
        ("tensor_split", c.c_void_p),
        ("progress_callback", c.c_void_p),
        ("progress_callback_user_data", c.c_void_p),
        ("kv_overrides", c.c_void_p),
        ("vocab_only", c.c_bool),
        ("check_tensors", c.c_bool),
        ("use_extra_bufts", c.c_bool),
        ("no_host", c.c_bool),
        ("no_alloc", c.c_bool),
        ("load_mtp", c.c_bool),
    )


EvalCallback = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_bool, c.c_void_p)
LogCallback = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)


class ContextParams(c.Structure):
    _fields_ = (
        *((name, c.c_uint32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq")),
        *((name, c.c_uint32) for name in ("n_outputs_max", "n_outputs_max_per_seq")),
        *((name, c.c_int32) for name in ("n_threads", "n_threads_batch", "ctx_type", "rope_scaling_type")),
        *((name, c.c_int32) for name in ("pooling_type", "attention_type", "flash_attn_type")),
        *((name, c.c_float) for name in ("rope_freq_base", "rope_freq_scale", "yarn_ext_factor", "yarn_attn_factor")),
        *((name, c.c_float) for name in ("yarn_beta_fast", "yarn_beta_slow")),
        ("yarn_orig_ctx", c.c_uint32),
        ("defrag_thold", c.c_float),
        ("cb_eval", EvalCallback),
        ("cb_eval_user_data", c.c_void_p),
        ("type_k", c.c_int32),
        ("type_v", c.c_int32),
        ("moe_cache_size", c.c_size_t),
        ("abort_callback", c.c_void_p),
        ("abort_callback_data", c.c_void_p),
        *(
            (name, c.c_bool)
            for name in ("embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full", "kv_unified")
        ),
        ("samplers", c.c_void_p),
        ("n_samplers", c.c_size_t),
        ("ctx_other", c.c_void_p),
    )


class Batch(c.Structure):
    _fields_ = (
        ("n_tokens", c.c_int32),
        ("token", c.POINTER(c.c_int32)),
        ("embd", c.c_void_p),
        ("pos", c.POINTER(c.c_int32)),
        ("n_seq_id", c.POINTER(c.c_int32)),
        ("seq_id", c.POINTER(c.POINTER(c.c_int32))),
        ("logits", c.POINTER(c.c_int8)),
    )


class Tensor(c.Structure):
    """The head of `struct ggml_tensor` up to what is read here."""

    _fields_ = (
        ("type", c.c_int32),
        ("buffer", c.c_void_p),
        ("ne", c.c_int64 * 4),
        ("nb", c.c_size_t * 4),
        ("op", c.c_int32),
        ("op_params", c.c_int32 * 16),
        ("flags", c.c_int32),
        ("src", c.c_void_p * 10),
        ("view_src", c.c_void_p),
        ("view_offs", c.c_size_t),
        ("data", c.c_void_p),
        ("name", c.c_char * 64),
    )


def load() -> c.CDLL:
    """The library with its signatures declared. Raises RuntimeError when its structures are laid out differently."""
    lib = c.CDLL(xllamacpp.xllamacpp.__file__)
    pointer, integer, text, flag = c.c_void_p, c.c_int32, c.c_char_p, c.c_bool
    integers = c.POINTER(c.c_int32)
    for name, result, arguments in (
        ("llama_model_default_params", ModelParams, ()),
        ("llama_context_default_params", ContextParams, ()),
        ("llama_model_load_from_file", pointer, (text, ModelParams)),
        ("llama_model_free", None, (pointer,)),
        ("llama_model_get_vocab", pointer, (pointer,)),
        ("llama_vocab_n_tokens", integer, (pointer,)),
        ("llama_vocab_is_eog", flag, (pointer, integer)),
        ("llama_init_from_model", pointer, (pointer, ContextParams)),
        ("llama_free", None, (pointer,)),
        ("llama_get_memory", pointer, (pointer,)),
        ("llama_memory_clear", None, (pointer, flag)),
        ("llama_batch_init", Batch, (integer, integer, integer)),
        ("llama_batch_free", None, (Batch,)),
        ("llama_decode", integer, (pointer, Batch)),
        ("llama_encode", integer, (pointer, Batch)),
        ("llama_model_n_embd", integer, (pointer,)),
        ("llama_get_embeddings_seq", c.POINTER(c.c_float), (pointer, integer)),
        ("llama_get_logits_ith", c.POINTER(c.c_float), (pointer, integer)),
        ("llama_tokenize", integer, (pointer, text, integer, integers, integer, flag, flag)),
        ("llama_token_to_piece", integer, (pointer, integer, text, integer, integer, flag)),
        ("llama_detokenize", integer, (pointer, integers, integer, text, integer, flag, flag)),
        ("llama_log_set", None, (LogCallback, pointer)),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    model, context = lib.llama_model_default_params(), lib.llama_context_default_params()
    found = (
        model.use_extra_bufts,
        model.vocab_only,
        context.n_ctx,
        context.n_batch,
        context.n_ubatch,
        context.flash_attn_type,
    )
    found += (context.yarn_ext_factor, context.type_k, context.type_v, context.offload_kqv, context.ctx_other)
    if found != (True, False, 512, 2048, 512, -1, -1.0, F16, F16, True, None):
        raise RuntimeError(
            f"llama.cpp's parameter structures differ from the ones declared here: defaults read as {found}"
        )
    return lib


LIB = load()


@LogCallback
def _log(level: int, message: bytes, _: int) -> None:
    if level >= 3:  # warnings and errors
        sys.stderr.write(message.decode("utf-8", "replace"))


LIB.llama_log_set(_log, None)


class Llama:
    """One model with one context: a sequence that grows until `forget`."""

    def __init__(
        self,
        path: str,
        *,
        context: int = 512,
        threads: int = 1,
        cache_type: int = F16,
        chunk: int = 512,
        repack: bool = False,
        flash: bool = False,
        watch: Sequence[str] = (),
        vocab_only: bool = False,
        sequences: int = 1,
        embeddings: bool = False,
    ) -> None:
        """`chunk`: tokens of one physical batch. `sequences`: texts of one; with `embeddings` they give vectors instead
        of logits. `watch`: names of intermediates without their layer; `seen` keeps
        those of the last batch, float32 (tokens, features) or (tokens, heads, head width). With `vocab_only` it
        tokenizes and nothing else."""
        params = LIB.llama_model_default_params()
        params.vocab_only = vocab_only
        params.use_extra_bufts = repack
        self.model = LIB.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        self.vocab = LIB.llama_model_get_vocab(self.model)
        self.vocab_size = LIB.llama_vocab_n_tokens(self.vocab)
        self.seen: dict[str, np.ndarray] = {}
        self.position = 0
        self._watch = set(watch)
        self._chunk = chunk
        self.context = None
        if vocab_only:
            return
        settings = LIB.llama_context_default_params()
        settings.n_ctx = context
        settings.n_batch = settings.n_ubatch = chunk
        settings.n_outputs_max_per_seq = chunk
        settings.n_seq_max = sequences
        settings.embeddings = embeddings
        settings.n_threads = settings.n_threads_batch = threads
        settings.flash_attn_type = int(flash)
        settings.type_k = settings.type_v = cache_type
        self._callback = EvalCallback(self._evaluated)
        if watch:
            settings.cb_eval = self._callback
        self.context = LIB.llama_init_from_model(self.model, settings)
        if not self.context:
            raise RuntimeError("llama.cpp cannot make a context")
        self._batch = LIB.llama_batch_init(chunk, 0, 1)

    def forget(self) -> None:
        """Back to an empty sequence."""
        LIB.llama_memory_clear(LIB.llama_get_memory(self.context), True)
        self.position = 0

    def __enter__(self) -> Llama:
        return self

    def __exit__(self, *_: object) -> None:
        if self.context:
            LIB.llama_batch_free(self._batch)
            LIB.llama_free(self.context)
        LIB.llama_model_free(self.model)

    def tokenize(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        data = text.encode()
        room = len(data) + 16
        ids = (c.c_int32 * room)()
        count = LIB.llama_tokenize(self.vocab, data, len(data), ids, room, add_special, parse_special)
        if count < 0:
            raise RuntimeError(f"{text!r} needs {-count} tokens")
        return list(ids[:count])

    def piece(self, token: int, special: bool = False) -> bytes:
        buffer = c.create_string_buffer(512)
        count = LIB.llama_token_to_piece(self.vocab, token, buffer, 512, 0, special)
        return buffer.raw[:count]

    def ends(self, token: int) -> bool:
        return LIB.llama_vocab_is_eog(self.vocab, token)

    def feed(self, tokens: Sequence[int], every: bool = False) -> np.ndarray:
        """Read tokens after those read before. Logits float32 (tokens, vocabulary) when `every`, else (1, vocabulary)
        of the last.
        """
        rows: list[np.ndarray] = []
        for start in range(0, len(tokens), self._chunk):
            part = tokens[start : start + self._chunk]
            batch = self._batch
            batch.n_tokens = len(part)
            for index, token in enumerate(part):
                batch.token[index] = token
                batch.pos[index] = self.position + index
                batch.n_seq_id[index] = 1
                batch.seq_id[index][0] = 0
                batch.logits[index] = every or start + index == len(tokens) - 1
            status = LIB.llama_decode(self.context, batch)
            if status:
                raise RuntimeError(f"llama_decode returned {status}")
            for index in range(len(part)):
                if batch.logits[index]:
                    row = LIB.llama_get_logits_ith(self.context, index)
                    rows.append(np.ctypeslib.as_array(row, (self.vocab_size,)).copy())
            self.position += len(part)
        return np.stack(rows)

    def embed(self, texts: Sequence[Sequence[int]], width: int | None = None) -> np.ndarray:
        """What the file's pooling gives for each text, all in one batch, not normalised: float32 (texts, `width`),
        without it the model's width."""
        batch = self._batch
        batch.n_tokens = sum(map(len, texts))
        places = ((text, position, token) for text, ids in enumerate(texts) for position, token in enumerate(ids))
        for index, (text, position, token) in enumerate(places):
            batch.token[index], batch.pos[index] = token, position
            batch.n_seq_id[index], batch.seq_id[index][0], batch.logits[index] = 1, text, True
        status = LIB.llama_encode(self.context, batch)
        if status:
            raise RuntimeError(f"llama_encode returned {status}")
        width = width or LIB.llama_model_n_embd(self.model)
        rows = (LIB.llama_get_embeddings_seq(self.context, text) for text in range(len(texts)))
        return np.stack([np.ctypeslib.as_array(row, (width,)).copy() for row in rows])

    def _evaluated(self, pointer: int, ask: bool, _: int) -> bool:
        tensor = Tensor.from_address(pointer)
        name = tensor.name.decode()
        wanted = name.rsplit("-", 1)[0] in self._watch
        if ask or not wanted:
            return wanted
        if tensor.type != F32:
            raise RuntimeError(f"{name} is of ggml type {tensor.type}, expected F32")
        shape, strides = tuple(tensor.ne)[::-1], tuple(tensor.nb)[::-1]
        bytes_spanned = sum(stride * (size - 1) for size, stride in zip(shape, strides, strict=True)) + 4
        raw = np.ctypeslib.as_array(c.cast(tensor.data, c.POINTER(c.c_uint8)), (bytes_spanned,))
        view = np.lib.stride_tricks.as_strided(raw.view(np.float32), shape, strides)
        self.seen[name] = view.copy().reshape(shape[next(axis for axis in range(3) if shape[axis] > 1 or axis == 2) :])
        return True
