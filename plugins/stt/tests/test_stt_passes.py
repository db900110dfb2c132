"""Codes and tokens: those of moshi, whatever company a stream has and however it is cut into passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host.api import Job
from golem_host.devices.cpu import CpuBackend
from golem_host.testing.tiny_stt import tiny_stt_directory
from golem_host_stt.checkpoint import Timing
from golem_host_stt.listening import Request, Transcript
from golem_host_stt.lm import pause_probabilities
from golem_host_stt.streams import Whole
from oracle_client import Oracle
from stt_checks import Streams, frames, recording, run, tiny

RECORDINGS = [(3.3, 1), (2.0, 2), (0.5, 3), (2.6, 4)]
"""Seconds and seed: longer than both contexts, whole frames and not."""


def heard(streams: Streams, codes: NDArray[np.int32], slot: int = 0) -> tuple[list[int], NDArray[np.float32]]:
    """Tokens and probabilities of pauses, from the step of the beginning on."""
    lm = streams.checkpoint.lm
    rows = np.concatenate([np.full((1, lm.levels), lm.cards, np.int32), codes])
    tokens, pauses, text = [], [], lm.text_cards
    for step, row in enumerate(rows):
        [found] = streams.passes.step([slot], [step], [text], row[None])
        text = found.token
        tokens.append(text)
        assert found.pauses is not None
        pauses.append(pause_probabilities(found.pauses))
    return tokens, np.stack(pauses)


@pytest.mark.oracle
@pytest.mark.parametrize(("seconds", "seed"), RECORDINGS)
def test_codes_tokens_and_pauses_are_those_of_moshi(
    kernels: CpuBackend, oracle: Oracle, seconds: float, seed: int
) -> None:
    check_beside_moshi(Streams(kernels), oracle, seconds, seed)


@pytest.mark.oracle
def test_twins_compute_it_too(oracle: Oracle) -> None:
    check_beside_moshi(Streams(CpuBackend(threads=2, native=False)), oracle, 0.3, 6)


def check_beside_moshi(streams: Streams, oracle: Oracle, seconds: float, seed: int) -> None:
    samples = recording(seconds, seed)
    expected = oracle.moshi(tiny(), frames(samples).reshape(-1))
    codes = streams.codes(samples)
    assert all(len(set(codes[:, level])) > 1 for level in range(codes.shape[1]))
    np.testing.assert_array_equal(codes, expected["codes"])
    tokens, pauses = heard(streams, codes)
    assert tokens == expected["tokens"].tolist()
    # keys and values in half precision are within 2^-11 of themselves, logits of about 3 within thousandths
    np.testing.assert_allclose(pauses, expected["pauses"], rtol=0, atol=1e-3)


@pytest.mark.oracle
def test_a_transcript_is_what_moshi_streams(kernels: CpuBackend, oracle: Oracle) -> None:
    """Of words alone: moshi spells bytes of characters out, we join them."""
    streams = Streams(kernels)
    samples = recording(4.0, 5)
    whole = Whole(samples, streams.checkpoint.timing)
    expected = oracle.moshi(tiny(), whole.take(whole.waiting).reshape(-1))
    [transcript] = transcripts(streams, [samples])
    text = streams.pieces.text(expected["tokens"][1:])
    assert transcript.text == text
    assert "<0x" in expected["text"] or text == expected["text"].removeprefix(" ")
    assert transcript.tokens == [token for token in expected["tokens"][1:] if streams.pieces.bytes_of(token)]


def transcripts(streams: Streams, recordings: list[NDArray[np.float32]]) -> list[Transcript]:
    """What recordings say that are heard together."""
    stepper = streams.stepper()
    jobs = [Job(Request(Whole(each, streams.checkpoint.timing), logprobs=True)) for each in recordings]
    for job in jobs:
        assert stepper.admit(job)
    run(stepper, jobs)
    return [job.value for job in jobs]


def test_company_and_threads_do_not_matter(kernels: CpuBackend) -> None:
    recordings = [recording(*each) for each in RECORDINGS[:3]]
    alone = [transcripts(Streams(kernels), [each])[0] for each in recordings]
    assert transcripts(Streams(kernels), recordings) == alone
    assert transcripts(Streams(CpuBackend(threads=1)), recordings) == alone
    assert len({each.text for each in alone}) == 3 and all(each.logprobs for each in alone)


def test_cuts_and_slots_do_not_matter(kernels: CpuBackend) -> None:
    """To the bit, of logits too; a slot that another stream had before begins anew."""
    samples = recording(3.0, 7)
    streams = Streams(kernels)
    expected = streams.codes(samples)
    streams.codes(recording(1.0, 8), slot=2)
    for cuts, slot in (((1,), 1), ((8,), 2), ((5, 1), 0)):
        np.testing.assert_array_equal(streams.codes(samples, cuts, slot), expected)
    tokens, pauses = heard(streams, expected)
    heard(streams, expected[::-1].copy(), slot=1)
    again, pauses_again = heard(streams, expected, slot=1)
    assert again == tokens and pauses_again.tobytes() == pauses.tobytes()


@pytest.mark.parametrize(("dtype", "q8_0"), [("BF16", False), ("F16", False), ("F32", True), ("BF16", True)])
def test_stored_types(tmp_path: Path, kernels: CpuBackend, dtype: str, q8_0: bool) -> None:
    """bfloat16 and q8_0 are within 2^-8 of every weight, and tokens of a random model are seldom that near."""
    folder = tiny_stt_directory(tmp_path / "tiny", dtype=dtype)
    samples = recording(2.0, 9)
    streams, plain = Streams(kernels, folder, q8_0=q8_0), Streams(kernels)
    codes = plain.codes(samples)
    np.testing.assert_array_equal(streams.codes(samples), codes)
    lm = plain.checkpoint.lm
    first = [each.passes.step([0], [0], [lm.text_cards], codes[:1])[0].logits.copy() for each in (streams, plain)]
    assert 0 < np.abs(first[0] - first[1]).max() < 0.1 * np.abs(first[1]).max()
    assert transcripts(Streams(kernels, folder, q8_0=q8_0), [samples, samples])[0].text


def test_silence_around_a_recording() -> None:
    whole = Whole(np.ones(1000, np.float32), Timing(delay=2.5, prefix=1.0))
    samples = whole.take(whole.waiting).reshape(-1)
    assert samples[:24000].sum() == 0 and samples[24000:25000].all() and samples[25000:].sum() == 0
    assert len(samples) == -(-(24000 + 1000 + 84000) // 1920) * 1920
    assert whole.waiting == 0
