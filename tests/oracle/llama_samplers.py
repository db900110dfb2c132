"""llama.cpp's samplers as an oracle: answers JSON requests (serving.py), arrays in the npz file `output`.

Run by the oracle interpreter (xllamacpp, numpy). Members: `model` (path; only its vocabulary is read), `samplers` (a
list of [name, arguments]: `dry` takes multiplier, base, allowed length, last n and breakers; the others the arguments
of llama.cpp's `llama_sampler_init_<name>`, without the vocabulary), `prompt` (ids that are accepted first), `rows` and
`seed` (logits are that many standard normal rows of the vocabulary's width, times `spread`, from numpy's generator,
rounded to float32), `repeat` (how many of them there are; then they come again) and perhaps `follow` (ids that are
accepted instead of those drawn).

-> {"tokens": [drawn id of each row]} where the last sampler draws; or, with `follow`, npz `logits` float32
   (rows, vocabulary): what samplers that drop nothing made of each.
"""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np
from llama_binding import LIB, Llama
from serving import serve


class Token(c.Structure):
    _fields_ = (("id", c.c_int32), ("logit", c.c_float), ("p", c.c_float))


class Tokens(c.Structure):
    _fields_ = (
        ("data", c.POINTER(Token)),
        ("size", c.c_size_t),
        ("selected", c.c_int64),
        ("sorted", c.c_bool),
    )


SIGNATURES = {
    "dist": (c.c_uint32,),
    "top_k": (c.c_int32,),
    "top_p": (c.c_float, c.c_size_t),
    "min_p": (c.c_float, c.c_size_t),
    "temp": (c.c_float,),
    "temp_ext": (c.c_float, c.c_float, c.c_float),
    "top_n_sigma": (c.c_float,),
    "typical": (c.c_float, c.c_size_t),
    "xtc": (c.c_float, c.c_float, c.c_size_t, c.c_uint32),
    "mirostat": (c.c_int32, c.c_uint32, c.c_float, c.c_float, c.c_int32),
    "mirostat_v2": (c.c_uint32, c.c_float, c.c_float),
    "adaptive_p": (c.c_float, c.c_float, c.c_uint32),
    "penalties": (c.c_int32, c.c_int32, c.c_float, c.c_float, c.c_float),
}


def make(lib: c.CDLL, vocab: Any, name: str, arguments: list[Any]) -> Any:
    if name == "dry":
        multiplier, base, allowed, last_n, breakers = arguments
        texts = (c.c_char_p * len(breakers))(*(text.encode() for text in breakers))
        init = lib.llama_sampler_init_dry
        init.argtypes = (c.c_void_p, c.c_float, c.c_float, c.c_int32, c.c_int32, c.c_void_p, c.c_size_t)
        init.restype = c.c_void_p
        return init(vocab, multiplier, base, allowed, last_n, texts, len(breakers))
    init = getattr(lib, f"llama_sampler_init_{name}")
    init.argtypes, init.restype = SIGNATURES[name], c.c_void_p
    return init(*arguments)


def sample(request: dict[str, Any]) -> dict[str, Any]:
    with Llama(request["model"], vocab_only=True) as llama:
        lib, vocab = LIB, llama.vocab
        lib.llama_sampler_apply.argtypes, lib.llama_sampler_apply.restype = (c.c_void_p, c.POINTER(Tokens)), None
        lib.llama_sampler_accept.argtypes, lib.llama_sampler_accept.restype = (c.c_void_p, c.c_int32), None
        chain = [make(lib, vocab, name, arguments) for name, arguments in request["samplers"]]
        for token in request["prompt"]:
            for sampler in chain:
                lib.llama_sampler_accept(sampler, token)
        width = lib.llama_vocab_n_tokens(vocab)
        logits = np.random.default_rng(request["seed"]).normal(size=(request["repeat"], width)) * request["spread"]
        logits = logits.astype(np.float32)
        data = (Token * width)()
        view = np.frombuffer(data, np.dtype([("id", "i4"), ("logit", "f4"), ("p", "f4")]))
        drawn: list[int] = []
        made, follow = [], request.get("follow")
        for row in range(request["rows"]):
            view["id"], view["logit"], view["p"] = np.arange(width), logits[row % request["repeat"]], 0
            tokens = Tokens(c.cast(data, c.POINTER(Token)), width, -1, False)
            for sampler in chain:
                lib.llama_sampler_apply(sampler, c.byref(tokens))
            first = (c.addressof(tokens.data.contents) - c.addressof(data)) // c.sizeof(Token)  # xtc drops the first
            left = view[first : first + tokens.size]
            if follow is None:
                token = int(left["id"][tokens.selected])
                drawn.append(token)
            else:
                token = follow[row]
                made.append(left["logit"].copy())
            for sampler in chain:
                lib.llama_sampler_accept(sampler, token)
        if made:
            np.savez(request["output"], logits=np.array(made))
        return {"tokens": drawn}


if __name__ == "__main__":
    serve(sample)
