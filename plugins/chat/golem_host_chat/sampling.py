"""Drawing the tokens of one answer: the sampling chain in llama-server's order, and the draw."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from itertools import dropwhile

import numpy as np
from numpy.typing import NDArray

from golem_host.errors import InternalError
from golem_host.ops.draw import NativeDraw, native_draw
from golem_host_chat import sampling_filters as filters
from golem_host_chat.constraints.masking import allows, masked
from golem_host_chat.likelihoods import Likelihood, Probabilities, of_candidates, of_model
from golem_host_chat.sampling_draws import AdaptiveProbability, Draw, MirostatOne, MirostatTwo, Proportional
from golem_host_chat.sampling_dry import Dry, DryRules
from golem_host_chat.sampling_filters import Candidates
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.sampling_penalties import RepetitionPenalties
from golem_host_chat.sampling_random import Mt19937
from golem_host_chat.scores import Scores

Filter = Callable[[Candidates], None]

_SCORING = frozenset({"penalties", "dry"})
"""Filters that change scores by what was written before."""
_KEEP_BEST = frozenset({"top_n_sigma", "top_k", "top_p", "min_p", "temperature"})
"""Filters that never drop the most likely token."""


class Sampler:
    """The sampling of one answer.

    `vocab_size` is the width of the logits, `suppress` are ids never drawn, `prompt` the ids of the whole prompt,
    which seed the windows of penalties and dry. `seed` is the seed in use: `params.seed`, or the random one drawn
    instead. xtc has a generator of its own, with the same seed. `likelihood` is that of the token drawn last, if
    `wanted`; what is drawn does not depend on it.
    """

    def __init__(
        self,
        params: SamplingParams,
        *,
        vocab_size: int,
        suppress: Sequence[int] = (),
        prompt: Sequence[int] = (),
        wanted: Probabilities | None = None,
    ) -> None:
        self.seed = secrets.randbits(32) if params.seed is None else params.seed
        self._vocab_size = vocab_size
        self._wanted = wanted
        self.likelihood: Likelihood | None = None
        self._random = Mt19937(self.seed)
        self._followers: list[RepetitionPenalties | Dry] = []
        biases: dict[int, float] = {}
        for token, bias in [*params.logit_bias, *((token, -np.inf) for token in suppress)]:
            # A vocabulary may hold tokens the model has no output for; they are never drawn anyway.
            if token < vocab_size:
                biases[token] = biases.get(token, 0.0) + bias
        self._bias_ids = np.fromiter(biases.keys(), np.int64, len(biases))
        with np.errstate(over="ignore"):
            self._biases = np.fromiter(biases.values(), np.float64, len(biases)).astype(np.float32)
        chain = self._chain(params, prompt)
        self._draw = self._last_step(params)
        self._greedy = _is_greedy(params, list(chain))
        if self._greedy:
            chain = {name: chain[name] for name in chain if name in _SCORING}
        self._filters = list(chain.values())
        usual = not self._greedy and isinstance(self._draw, Proportional)
        self._native = _native(params, list(chain)) if usual else None
        self._biased = frozenset(biases)
        # A bias that only lowers leaves the largest logit the largest, unless it is the one lowered.
        self._takes_best = self._greedy and not chain and all(bias <= 0 for bias in biases.values())

    def _chain(self, params: SamplingParams, prompt: Sequence[int]) -> dict[str, Filter]:
        """The filters that do something, by name, in order."""
        if params.mirostat:
            return {"temperature": partial(filters.temperature, value=params.temperature, spread=0.0, exponent=1.0)}
        keep = params.min_keep
        chain: dict[str, Filter] = {}
        for name in dict.fromkeys(params.samplers):
            match name:
                case "penalties":
                    penalties = (params.repeat_penalty, params.frequency_penalty, params.presence_penalty)
                    if params.repeat_last_n > 0 and penalties != (1.0, 0.0, 0.0):
                        chain[name] = self._following(RepetitionPenalties(params.repeat_last_n, *penalties, prompt))
                case "dry" if params.dry_multiplier != 0 and params.dry_penalty_last_n > 0:
                    chain[name] = self._following(Dry(_dry_rules(params), prompt))
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

    def _following(self, follower: RepetitionPenalties | Dry) -> Filter:
        """A filter that is told what is drawn."""
        self._followers.append(follower)
        return follower

    def _last_step(self, params: SamplingParams) -> Draw:
        rates = {"tau": params.mirostat_tau, "eta": params.mirostat_eta}
        if params.mirostat == 1:
            return MirostatOne(**rates, vocab_size=self._vocab_size, random=self._random)
        if params.mirostat == 2:
            return MirostatTwo(**rates, random=self._random)
        if "adaptive_p" in params.samplers:
            return AdaptiveProbability(target=params.adaptive_target, decay=params.adaptive_decay, random=self._random)
        return Proportional(self._random)

    def sample(
        self,
        scores: Scores,
        row: int = 0,
        *,
        forced: int | None = None,
        mask: NDArray[np.uint32] | None = None,
    ) -> int:
        """A token drawn from a row of `scores`, the one that is `forced`, or one of those in `mask`
        (`constraints.masking`). Raises `SamplingError`, and `InternalError` for logits that are not finite.

        A few of its logits may be changed meanwhile, where they can be written; afterwards they are as they were.
        """
        best = scores.best[row]
        if best < 0:
            raise InternalError("the model's output is not finite: no token can be drawn")
        if forced is not None:
            token = self._certain(forced)
        elif mask is None or (self._takes_best and best not in self._biased and allows(mask, best)):
            token = self._pick(scores, row)
        else:
            token = self._pick(masked(scores, row, mask), 0)
        if self._wanted is not None and not self._wanted.after:
            self.likelihood = of_model(scores, row, token, self._wanted.top)
        return token

    def _pick(self, scores: Scores, row: int) -> int:
        best = scores.best[row]
        if self._takes_best and best not in self._biased:
            return self._certain(best)
        if self._native is not None and not self._biased and not self._tells_left:
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
            token = candidates.draw(self._native, self._random.uniform_double())
            if not self._tells_left:
                return token
            self._narrow(candidates)
        else:
            self._narrow(candidates)
            if self._greedy:
                token = int(np.argmax(candidates.logits))
                filters.finite(candidates.logits[token])
                return self._certain(token)
            token = candidates.token(self._draw(candidates))
        if self._wanted is not None and self._wanted.after:
            probabilities = filters.softmax(candidates)
            self.likelihood = of_candidates(candidates.ids, probabilities, token, self._wanted.top)
        return token

    def _narrow(self, candidates: Candidates) -> None:
        for narrow in self._filters:
            narrow(candidates)

    def _certain(self, token: int) -> int:
        """`token`, of which there is no doubt."""
        if self._wanted is not None and self._wanted.after:
            self.likelihood = Likelihood(1.0, ((token, 1.0),)[: self._wanted.top])
        return token

    @property
    def _tells_left(self) -> bool:
        """Whether what sampling leaves is to be told."""
        return self._wanted is not None and self._wanted.after

    def accept(self, token: int) -> None:
        """`token` is part of the answer: penalties and dry count it."""
        for follower in self._followers:
            follower.accept(token)


def _dry_rules(params: SamplingParams) -> DryRules:
    return DryRules(
        multiplier=params.dry_multiplier,
        base=params.dry_base,
        allowed=params.dry_allowed_length,
        last_n=params.dry_penalty_last_n,
        restarts=params.dry_restarts,
    )


def _is_greedy(params: SamplingParams, active: list[str]) -> bool:
    """Whether the draw is the arg max of the scores: temperature 0, and nothing that could drop that token."""
    spread = 0.0 if params.mirostat else params.dynatemp_range
    if "temperature" not in active or spread > 0 or np.float32(params.temperature) > 0:
        return False
    return _KEEP_BEST.issuperset(dropwhile(_SCORING.__contains__, active))


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
