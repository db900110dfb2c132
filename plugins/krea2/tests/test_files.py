"""Finding the three files, what is refused and how it is told, and how weights are read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.api import ModelFileError
from golem_host.devices.cpu import CpuBackend
from golem_host.testing.safetensors import safetensors_bytes
from golem_host.testing.tiny_krea2 import (
    TOKENIZER,
    TinyKrea2,
    dit_tensors,
    encoder_tensors,
    fp8,
    tiny_krea2_directory,
    vae_tensors,
    vocabulary_size,
    write_role,
)
from golem_host.testing.tiny_laya import stored
from golem_host_krea2 import dit, tiles
from golem_host_krea2.checkpoint import Opened
from golem_host_krea2.folders import find_files, looks_like
from golem_host_krea2.fp8 import Fp8Matrix, bfloat16_words, e4m3_values
from golem_host_krea2.model import Krea2Model
from golem_host_krea2.sampling import noise, sigmas
from golem_host_krea2.tokens import TEMPLATE, open_tokens
from krea2_checks import result

DIT = Path("models/diffusion_models/krea2_turbo.safetensors")
ENCODER = Path("models/text_encoders/qwen3vl_4b.safetensors")
VAE = Path("models/vae/qwen_image_vae.safetensors")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tiny_krea2_directory(tmp_path / "comfy")


def test_root_and_models_folder(root: Path) -> None:
    for given in (root, root / "models"):
        found = find_files(given)
        assert [found.dit, found.encoder, found.vae] == [given / path.relative_to(root.relative_to(root) / "models")
            if given.name == "models" else given / path for path in (DIT, ENCODER, VAE)]  # fmt: skip
        assert found.comfy == root
        assert looks_like(given)
    assert not looks_like(root / "models/vae") and not looks_like(root / DIT)


def test_older_folders_inner_folders_and_links(root: Path, tmp_path: Path) -> None:
    (root / "models/unet/deep").mkdir(parents=True)
    shutil.move(root / DIT, root / "models/unet/deep/model.safetensors")
    shutil.move(root / "models/text_encoders", tmp_path / "elsewhere")
    (root / "models/clip").mkdir()
    (root / "models/clip/link").symlink_to(tmp_path / "elsewhere")
    (root / "models/clip/again").symlink_to(root / "models")  # back to a folder above
    found = find_files(root)
    assert found.dit.name == "model.safetensors" and found.encoder.parts[-2] == "link"


def test_names_decide_among_several(root: Path) -> None:
    sizes = TinyKrea2()
    folder = (root / DIT).parent
    for name in ("aaa", "krea2_raw_bf16", "krea2_turbo_bf16", "krea2_turbo_fp8_scaled"):
        write_role(folder / f"{name}.safetensors", dit_tensors(sizes), "BF16")
    (root / DIT).unlink()
    write_role(root / "models/vae/wan_2.1_vae.safetensors", vae_tensors(sizes), "BF16")
    found = find_files(root)
    assert found.dit.name == "krea2_turbo_fp8_scaled.safetensors" and found.vae.name == VAE.name


@pytest.mark.parametrize(
    ("role", "said", "folders"),
    [
        (DIT, "no diffusion model", ["diffusion_models", "unet"]),
        (ENCODER, "no text encoder", ["text_encoders", "clip"]),
        (VAE, "no VAE", ["vae"]),
    ],
)
def test_a_role_that_no_file_has(root: Path, role: Path, said: str, folders: list[str]) -> None:
    """The error names the folders searched and what could not be read there."""
    (root / role).write_bytes(b"not a model")
    with pytest.raises(ModelFileError, match=said) as error:
        find_files(root)
    for folder in folders:
        assert str(root / "models" / folder) in str(error.value)
    assert role.name in str(error.value) and "not a safetensors file" in str(error.value)
    with pytest.raises(ModelFileError, match="is no directory"):
        find_files(root / "nowhere")


def rewritten(path: Path, tensors: dict[str, Any], dtypes: dict[str, str] | None = None, **metadata: str) -> None:
    raw = {name: stored(value, "BF16") if value.dtype == np.float32 else value for name, value in tensors.items()}
    path.write_bytes(safetensors_bytes(dict(sorted(raw.items(), key=lambda item: -item[1].itemsize)), metadata, dtypes))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (
            "blocks.1.attn.wk.weight",
            np.zeros((64, 127), np.float32),
            r"'blocks.1.attn.wk.weight' has shape \[64, 127\]",
        ),
        ("blocks.1.mod.lin", np.zeros(5, np.float32), r"has shape \[5\], \[768\] is expected"),
        ("blocks.1.mlp.up.weight", None, "'blocks.1.mlp.up.weight' is missing"),
        ("blocks.0.attn.wk.weight", np.zeros((96, 128), np.float32), "128 values of queries and 96 of keys"),
        ("first.weight", np.zeros((128, 32), np.float32), "does not take patches"),
        ("blocks.1.attn.wq.weight", np.zeros((128, 128), np.uint8), "is stored as U8"),
        ("blocks.1.attn.wq.weight", np.zeros((128, 128), np.int8), "is stored as I8"),
    ],
)
def test_diffusion_models_that_do_not_fit(root: Path, name: str, value: Any, reason: str) -> None:
    tensors: dict[str, Any] = dit_tensors(TinyKrea2())
    tensors[name] = value
    rewritten(root / DIT, {name: value for name, value in tensors.items() if value is not None})
    with pytest.raises(ModelFileError, match=reason):
        Krea2Model(root)


def test_text_encoders_and_vaes_that_do_not_fit(root: Path) -> None:
    encoder = encoder_tensors(TinyKrea2(taps=2))
    rewritten(root / ENCODER, {f"model.{name}": value for name, value in encoder.items()})
    with pytest.raises(ModelFileError, match="has 5 layers; Krea 2 reads what enters layer 8"):
        Krea2Model(root)
    encoder = encoder_tensors(TinyKrea2(text_width=32))
    rewritten(root / ENCODER, {f"model.{name}": value for name, value in encoder.items()})
    with pytest.raises(ModelFileError, match="has rows of 32 values; krea2_turbo.safetensors reads 64"):
        Krea2Model(root)
    rewritten(root / ENCODER, {f"model.{name}": value for name, value in encoder_tensors(TinyKrea2()).items()})
    vae: dict[str, Any] = vae_tensors(TinyKrea2())
    vae["decoder.middle.0.residual.2.weight"] = np.zeros((32, 32, 1, 3, 3), np.float32)
    rewritten(root / VAE, vae)
    with pytest.raises(ModelFileError, match="a convolution of 32 channels with 3 taps a side is expected"):
        Krea2Model(root)


@pytest.mark.parametrize("style", ["comfy_quant", "metadata"])
@pytest.mark.parametrize("kind", ["mxfp8", "nvfp4", "int8_convrot"])
def test_quantizations_that_are_not_served_are_named(root: Path, style: str, kind: str) -> None:
    tensors: dict[str, Any] = dit_tensors(TinyKrea2())
    layer = "blocks.1.mlp.up"
    codes, scale = fp8(tensors[f"{layer}.weight"])
    tensors |= {f"{layer}.weight": codes, f"{layer}.weight_scale": np.array([scale])}
    metadata = {}
    if style == "comfy_quant":
        tensors[f"{layer}.comfy_quant"] = np.frombuffer(json.dumps({"format": kind}).encode(), np.uint8)
    else:
        metadata["_quantization_metadata"] = json.dumps({"format_version": "1", "layers": {layer: {"format": kind}}})
    rewritten(root / DIT, tensors, {f"{layer}.weight": "F8_E4M3"}, **metadata)
    with pytest.raises(ModelFileError, match=f"'{layer}.weight' is stored as {kind}, which is not served"):
        Krea2Model(root)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"weight_scale": np.array([1, 2], np.float32)}, "is no single scale"),
        ({"weight_scale": np.array([np.nan], np.float32)}, "is nan"),
        ({"weight_scale": np.zeros(4, np.uint8)}, "scales of blocks"),
        ({"comfy_quant": np.frombuffer(b"{", np.uint8)}, "names no format"),
        ({"comfy_quant": np.frombuffer(b"[" * 5000, np.uint8)}, "names no format"),
    ],
)
def test_scales_that_are_none(root: Path, changes: dict[str, Any], reason: str) -> None:
    tensors: dict[str, Any] = dit_tensors(TinyKrea2())
    layer = "blocks.1.mlp.up"
    tensors[f"{layer}.weight"] = fp8(tensors[f"{layer}.weight"])[0]
    tensors |= {f"{layer}.{name}": value for name, value in changes.items()}
    rewritten(root / DIT, tensors, {f"{layer}.weight": "F8_E4M3"})
    with pytest.raises(ModelFileError, match=reason):
        Krea2Model(root)


def test_float8() -> None:
    values = e4m3_values()
    assert values[0x7E] == 448 and values[0x08] == 2.0**-6 and values[1] == 2.0**-9 and values[0xC0] == -2
    assert np.isnan(values[[0x7F, 0xFF]]).all()
    torch = pytest.importorskip("torch")
    expected = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()
    np.testing.assert_array_equal(values, expected)
    codes = np.random.default_rng(0).integers(0, 126, (6, 8)).astype(np.uint8)
    matrix = Fp8Matrix("w", (6, 8), codes.reshape(-1), 0.37, Path("x"))
    words = torch.from_numpy(values[codes] * np.float32(0.37)).bfloat16().float().numpy()
    np.testing.assert_array_equal(matrix.part(2, 3).float32(), words[2:5])
    assert bfloat16_words(np.array([np.inf, np.nan], np.float32)).tolist() == [0x7F80, 0x7FC0]


def test_gguf_diffusion_models(root: Path, tmp_path: Path) -> None:
    """Quantized blocks, of mixed types, through the quantized products: near the float model's velocities."""
    gguf = pytest.importorskip("gguf")
    sizes = TinyKrea2(width=256, ff_width=256, heads=8, kv_heads=4, seed=2)
    write_role(root / DIT, dit_tensors(sizes), "F32")
    folder = tmp_path / "quantized"
    shutil.copytree(root, folder)
    (folder / DIT).unlink()
    path = (folder / DIT).with_suffix(".gguf")
    writer = gguf.GGUFWriter(path, "krea2")
    for name, value in dit_tensors(sizes).items():
        kind = "F32"
        if value.ndim == 2 and name.startswith("blocks."):
            kind = "Q8_0" if "wv" in name or name.startswith("blocks.1.mlp.down") else "Q5_1"
            kind = "F16" if "attn.wk" in name else "BF16" if "attn.wo" in name else kind
        quantized = gguf.quants.quantize(value, gguf.GGMLQuantizationType[kind])
        writer.add_tensor(name, quantized, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert Krea2Model(folder).quantization == "Q5_1"
    backend = CpuBackend(threads=2)
    rng = np.random.default_rng(0)
    latent, text = rng.standard_normal((16, 4, 4), np.float32), rng.standard_normal((3, 256), np.float32)
    found = []
    for place in (root, folder):
        files = Opened(find_files(place))
        t, modulation = result(dit.embed_times(backend, files.dit, files.dit_hparams, [0.5]))
        denoiser = dit.Denoiser(backend, files.dit, files.dit_hparams, 2, 2, 3)
        result(denoiser.prepare())
        found += result(denoiser.velocities(dit.patched(latent), [text], t[0], modulation[0]))
    error = np.linalg.norm(found[0] - found[1]) / np.linalg.norm(found[0])
    assert 1e-4 < error < 0.1  # five bits a weight


def test_the_tokenizer(root: Path, tmp_path: Path) -> None:
    rows = vocabulary_size()
    from_tree = open_tokens(None, root, root / ENCODER, (), rows)
    assert from_tree.source == root / TOKENIZER
    prompt = from_tree.prompt("fox")
    start = rows - 2
    assert prompt.ids.count(start) == 3 and prompt.ids[prompt.leading :][:3] == from_tree._encode("fox")
    assert len(prompt.ids) - prompt.leading == 3 + len(from_tree._encode("<|im_end|>\n<|im_start|>assistant\n"))
    # a prompt that is a template itself, cut after its second beginning; one that joins the line before it
    own = from_tree.prompt("<|im_start|>a<|im_start|>user\nfox")
    assert own.ids[own.leading :] == from_tree._encode("fox")
    assert from_tree.prompt("").ids[prompt.leading :] == prompt.ids[prompt.leading + 3 :]
    with pytest.raises(ModelFileError, match="text encoder's 20 rows"):
        open_tokens(None, root, root / ENCODER, (), 20)
    shutil.rmtree(root / "comfy")
    with pytest.raises(ModelFileError, match=r"tokenizer.json, /no.gguf. Name one with --krea2-tokenizer"):
        open_tokens(None, None, root / ENCODER, [Path("/no.gguf")], rows)
    with pytest.raises(ModelFileError, match="has no tokenizer of Qwen2"):
        open_tokens(root / "x.gguf", None, root / ENCODER, (), rows)
    (root / "words").mkdir()
    (root / "words/vocab.json").write_text('{"a": 0}')
    (root / "words/merges.txt").write_text("")
    (root / "words/tokenizer_config.json").write_text("{}")
    with pytest.raises(ModelFileError, match="lists no special tokens"):
        open_tokens(root / "words", None, root / ENCODER, (), rows)


def test_tokens_of_qwens_own_vocabulary(llama_source: Path) -> None:
    path = llama_source / "models/ggml-vocab-qwen2.gguf"
    tokens = open_tokens(None, None, path, [path], 151936)
    found = tokens.prompt("a red fox in the snow, photo")
    assert found.leading == 34 and found.ids[:6] == [151644, 8948, 198, 74785, 279, 2168]
    assert found.ids[34:] == [64, 2518, 38835, 304, 279, 11794, 11, 6548, 151645, 198, 151644, 77091, 198]
    assert tokens.prompt("").leading == 34 and len(tokens.prompt("").ids) == 39
    assert TEMPLATE.count("{}") == 1


def test_sigmas_and_noise() -> None:
    expected = [1.0, 0.956724, 0.904531, 0.840349, 0.759511, 0.654567, 0.512844, 0.310901, 0.0]
    assert sigmas(8) == pytest.approx(expected, abs=1e-6)
    assert sigmas(28)[27] == pytest.approx(0.104954, abs=1e-6)  # where the table's steps show
    assert len(sigmas(1)) == 2
    first = [1.8423299, 0.5188872, -1.7119213, -1.7013793, 2.0194194, -0.2686144]
    assert noise(5, 8, 8).reshape(-1)[:6].tolist() == pytest.approx(first, abs=1e-6)
    np.testing.assert_array_equal(noise(5, 8, 8), noise(5 + 2**32, 8, 8))


def test_tiles() -> None:
    assert tiles.cuts(32) == [(0, 32)] and tiles.cuts(33) == [(0, 32), (24, 33)]
    assert tiles.cuts(128) == [(0, 32), (24, 56), (48, 80), (72, 104), (96, 128)]
    assert tiles.ramp(64).tolist() == [1.0] * 64
    assert tiles.ramp(256)[[0, 63, 128, 192, 255]].tolist() == [1 / 64, 1, 1, 1, 1 / 64]

    def painted(latent: Any) -> Any:
        """Each latent's first channel in its 8 x 8 pixels."""
        yield
        return np.repeat(np.repeat(latent[0], 8, 0), 8, 1)[..., None] * np.ones(3, np.float32)

    latent = np.random.default_rng(0).standard_normal((16, 40, 70)).astype(np.float32)
    whole, cut = result(painted(latent)), result(tiles.decode_tiled(painted, latent))
    np.testing.assert_allclose(cut, whole, atol=2e-6)


def test_devices_that_draw_nothing(root: Path) -> None:
    class Elsewhere:
        name = "vulkan:0"
        backend = object()

    from golem_host.api import OperatorError

    with pytest.raises(OperatorError, match="vulkan:0 draws no pictures yet.*--krea2-device cpu"):
        Krea2Model(root).load(Elsewhere(), {"krea2-keep": False}, lambda share: None)  # type: ignore[arg-type]
