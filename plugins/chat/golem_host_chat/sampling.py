"""Drawing the tokens of one answer: the sampling chain in llama-server's order, and the draw."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from golem_host.ops.draw import NativeDraw, native_draw
from golem_host_chat import sampling_filters as filters
from golem_host_chat.sampling_filters import Candidates, SamplingError
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.sampling_penalties import RepetitionPenalties
from golem_host_chat.sampling_random import Mt19937
from golem_host_chat.scores import Scores

Filter = Callable[[Candidates], None]

_KEEP_BEST = frozenset({"top_n_sigma", "top_k", "top_p", "min_p", "temperature"})
"""Filters that never drop the most likely token."""


class Sampler:
    """The sampling of one answer.

    `vocab_size` is the width of the logits, `suppress` are ids never drawn, `prompt` the ids of the whole prompt,
    which seed the penalties' window. `seed` is the seed in use: `params.seed`, or the random one drawn instead. Each
    drawn token takes one number from the generator, whatever is left to choose from. xtc has its own, with the same
    seed.
    """

    def __init__(
        self, params: SamplingParams, *, vocab_size: int, suppress: Sequence[int] = (), prompt: Sequence[int] = ()
    ) -> None:
        self.seed = secrets.randbits(32) if params.seed is None else params.seed
        self._vocab_size = vocab_size
        self._random = Mt19937(self.seed)
        self._penalties: RepetitionPenalties | None = None
        biases: dict[int, float] = {}
        for token, bias in [*params.logit_bias, *((token, -np.inf) for token in suppress)]:
            # A vocabulary may hold tokens the model has no output for; they are never drawn anyway.
            if token < vocab_size:
                biases[token] = biases.get(token, 0.0) + bias
        self._bias_ids = np.fromiter(biases.keys(), np.int64, len(biases))
        with np.errstate(over="ignore"):
            self._biases = np.fromiter(biases.values(), np.float64, len(biases)).astype(np.float32)
        chain = self._chain(params, prompt)
        self._greedy = _is_greedy(params, list(chain))
        if self._greedy:
            chain = {name: chain[name] for name in chain if name == "penalties"}
        self._filters = list(chain.values())
        self._native = None if self._greedy else _native(params, list(chain))
        self._biased = frozenset(biases)
        # A bias that only lowers leaves the largest logit the largest, unless it is the one lowered.
        self._takes_best = self._greedy and not chain and all(bias <= 0 for bias in biases.values())

    def _chain(self, params: SamplingParams, prompt: Sequence[int]) -> dict[str, Filter]:
        """The filters that do something, by name, in order."""
        keep = params.min_keep
        chain: dict[str, Filter] = {}
        for name in params.samplers:
            match name:
                case "penalties":
                    penalties = (params.repeat_penalty, params.frequency_penalty, params.presence_penalty)
                    if params.repeat_last_n > 0 and penalties != (1.0, 0.0, 0.0):
                        self._penalties = RepetitionPenalties(params.repeat_last_n, *penalties, prompt)
                        chain[name] = self._penalties
                case "top_n_sigma" if params.top_n_sigma > 0:
                    chain[name] = partial(filters.top_n_sigma, n=params.top_n_sigma)
                case "top_k" if params.top_k > 0:
                    chain[name] = partial(filters.top_k, k=params.top_k)
                case "typ_p" if params.typical_p < 1:
                    chain[name] = partial(filters.typical_p, p=params.typical_p, min_keep=keep)
                case "top_p" if params.top_p < 1:
                    chain[name] = partial(filters.top_p, p=params.top_p, min_keep=keep)
                case "min_p" if params.min_p > 0:
                    chain[name] = partial(filters.min_p, p=params.min_p, min_keep=keep)
                case "xtc" if params.xtc_probability > 0 and params.xtc_threshold <= 0.5:
                    chain[name] = partial(
                        filters.xtc,
                        probability=params.xtc_probability,
                        threshold=params.xtc_threshold,
                        min_keep=keep,
                        random=Mt19937(self.seed),
                    )
                case "temperature":
                    chain[name] = partial(
                        filters.temperature,
                        value=params.temperature,
                        spread=params.dynatemp_range,
                        exponent=params.dynatemp_exponent,
                    )
        return chain

    def sample(self, scores: Scores, row: int = 0) -> int:
        """A token drawn from a row of `scores`. Raises `SamplingError`.

        A few of its logits may be changed meanwhile, where they can be written; afterwards they are as they were.
        """
        best = scores.best[row]
        if best < 0:
            raise SamplingError("the model's output is not finite: no token can be drawn")
        if self._takes_best and best not in self._biased:
            return best
        if self._native is not None and not self._biased:
            return self._native(scores.logits[row], scores.maxima[row], self._random.uniform_double())
        candidates = Candidates(scores.logits[row], scores.maxima[row])
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return self._narrowed(candidates)
        finally:
            candidates.restore()

    def _narrowed(self, candidates: Candidates) -> int:
        """The token drawn after biases and filters."""
        if len(self._bias_ids):
            candidates.change(self._bias_ids, candidates.logits[self._bias_ids] + self._biases)
        if self._native is not None:
            return candidates.draw(self._native, self._random.uniform_double())
        for narrow in self._filters:
            narrow(candidates)
        if not self._greedy:
            return self._draw(candidates)
        token = int(np.argmax(candidates.logits))
        filters.finite(candidates.logits[token])
        return token

    def accept(self, token: int) -> None:
        """`token` is part of the answer: the penalties count it."""
        if self._penalties is not None:
            self._penalties.accept(token)

    def _draw(self, candidates: Candidates) -> int:
        """The first candidate at which the running sum of weights reaches a uniform share of the whole."""
        weights = np.exp(candidates.logits - candidates.best())
        share = self._random.uniform_double()
        running = np.cumsum(weights.astype(np.float64))
        # Never a leading token of weight zero, even at a share of zero.
        target = max(share * running[-1], np.finfo(np.float64).smallest_subnormal)
        return candidates.token(int(np.searchsorted(running, target)))


def _is_greedy(params: SamplingParams, active: list[str]) -> bool:
    """Whether the draw is the arg max after penalties: temperature 0, and nothing else could drop that token."""
    if "temperature" not in active or params.dynatemp_range > 0 or np.float32(params.temperature) > 0:
        return False
    return _KEEP_BEST.issuperset(active[1:] if active[0] == "penalties" else active)


def _native(params: SamplingParams, active: list[str]) -> NativeDraw | None:
    """The chain as one native call, where it is the usual one and there is a library."""
    usual = [name for name in ("top_k", "top_p", "min_p", "temperature") if name in active]
    if active != usual or not {"top_k", "temperature"} <= set(active):
        return None
    if params.dynatemp_range > 0 or np.float32(params.temperature) <= 0:
        return None
    return native_draw(
        top_k=params.top_k,
        top_p=params.top_p if "top_p" in active else 1.0,
        min_p=params.min_p if "min_p" in active else 0.0,
        min_keep=params.min_keep,
        temperature=params.temperature,
    )
