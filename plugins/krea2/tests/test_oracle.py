"""Parts and whole pictures against diffusers and transformers, over every way in which files are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.host import Host
from golem_host.testing.tiny_krea2 import TOKENIZER, TinyKrea2, tiny_krea2_directory, vocabulary_size
from golem_host_krea2 import dit, encoder, vae
from golem_host_krea2.checkpoint import Opened
from golem_host_krea2.folders import find_files
from golem_host_krea2.tokens import open_tokens
from krea2_checks import PATH, pixels_of, result, serve
from oracle_client import Oracle

pytestmark = pytest.mark.oracle
IDS = [5, 9, 100, 44, 3, 2, 1, 77]


DTYPES = ["F32", "BF16", "F16", "FP8", "FP8_OLD"]


@pytest.fixture(params=[*DTYPES, "twins"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Of each type; `twins` of BF16."""
    prefixes = {"F16": ("model.diffusion_model.", "model.language_model."), "F32": ("", "")}
    prefix, encoder_prefix = prefixes.get(request.param, ("", "model."))
    dtype = request.param if request.param in DTYPES else "BF16"
    return tiny_krea2_directory(tmp_path, dtype=dtype, prefix=prefix, encoder_prefix=encoder_prefix)


@pytest.fixture
def backend(request: pytest.FixtureRequest, root: Path) -> CpuBackend:
    return CpuBackend(threads=2, native="twins" not in request.node.name)


def test_parts(root: Path, oracle: Oracle, backend: CpuBackend) -> None:
    files = Opened(find_files(root))
    rng = np.random.default_rng(0)
    taps = files.dit_hparams.taps
    got: Any = result(encoder.encode(backend, files.encoder, files.encoder_hparams, taps, IDS, 2))
    expected = oracle.krea2(root, "encoder", ids=IDS, taps=taps)["taps"][2:]
    # float32 sums of up to 96 terms in another order, through eight layers; values reach 9
    np.testing.assert_allclose(got, expected, atol=2e-5)

    latent = rng.standard_normal((16, 6, 10)).astype(np.float32)
    got = result(vae.decode(backend, result(files.decoder.load()), latent))
    expected = oracle.krea2(root, "vae", latent=latent.tolist())["picture"].transpose(1, 2, 0)
    np.testing.assert_allclose(got.clip(-1, 1), expected, atol=3e-6)

    context = rng.standard_normal((7, taps, files.dit_hparams.text.width)).astype(np.float32)
    text: Any = result(dit.fuse(backend, files.dit, files.dit_hparams, context))
    t, modulation = result(dit.embed_times(backend, files.dit, files.dit_hparams, [0.7]))
    denoiser = dit.Denoiser(backend, files.dit, files.dit_hparams, 3, 5, len(text))
    result(denoiser.prepare())
    [velocity] = result(denoiser.velocities(dit.patched(latent), [text], t[0], modulation[0]))
    expected = oracle.krea2(root, "dit", context=context.tolist(), latent=latent.tolist(), sigma=0.7)["velocity"]
    # cosines of angles near 700 are rounded to 3e-5 by either, and values reach 4; rows of bfloat16 blocks keep 8 bits
    coarse = files.dit.type_name("blocks.0.attn.wq.weight") not in ("F32", "F16")
    np.testing.assert_allclose(dit.unpatched(velocity, 3, 5), expected, atol=1e-2 if coarse else 3e-5)


@pytest.mark.parametrize(
    ("dtype", "body"),
    [
        ("BF16", {"prompt": "a red fox in the snow", "seed": 5, "size": "256x320", "steps": 4}),
        ("BF16", {"prompt": "Ünïcode 雪", "seed": 2**64 - 1, "size": "272x256", "steps": 2, "cfg": 3.0}),
        ("FP8", {"prompt": "user, draw!", "seed": 7, "size": "256x256", "steps": 2}),
        ("FP8_OLD", {"prompt": "x", "seed": 0, "size": "256x288", "steps": 2, "cfg": 3, "negative_prompt": "blurry"}),
    ],
)
def test_pictures(tmp_path: Path, oracle: Oracle, dtype: str, body: dict[str, Any]) -> None:
    """Pixels equal a pipeline of diffusers' parts; the same request twice gives the same bytes."""
    root = tiny_krea2_directory(tmp_path / "comfy", TinyKrea2(seed=3), dtype=dtype)

    async def scenario(host: Host, client: httpx.AsyncClient) -> list[dict[str, Any]]:
        answers = [await client.post(PATH, json=body) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
        return [answer.json() for answer in answers]

    first, second = serve(tmp_path, scenario, root)
    assert first["data"] == second["data"]
    tokens = open_tokens(root / TOKENIZER, None, root, (), vocabulary_size())
    texts = [body["prompt"], *([body.get("negative_prompt", "")] if body.get("cfg", 1) != 1 else [])]
    prompts = [[found.ids, found.leading] for found in map(tokens.prompt, texts)]
    width, height = map(int, body["size"].split("x"))
    expected = oracle.krea2(
        root, "picture", prompts=prompts, cfg=body.get("cfg", 1), steps=body["steps"], seed=body["seed"],
        size=[width, height],
    )["picture"]  # fmt: skip
    got = pixels_of(first).astype(int)
    assert got.shape == (height, width, 3)
    assert np.abs(got - expected).max() <= 2
    assert got.std() > 10
