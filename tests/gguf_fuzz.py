"""Feeds made-up GGUF files to all that reads them: `python tests/gguf_fuzz.py --cases 100000 [--seed N]`.

Each file is either refused with a `ModelFileError` that names it, or it is a model: then its facts can be told, its
tokenizer takes a text, and a pass over it computes. Anything else is a fault, whose file is kept. Memory is capped, so
that a reader that takes more than a file can justify is a fault, too, and no case may take longer than a minute.
"""

from __future__ import annotations

import argparse
import logging
import re
import resource
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from gguf_mutations import File, file_of, mutated
from golem_host.devices.cpu import CpuBackend
from golem_host.errors import ModelFileError
from golem_host.kernels import library
from golem_host.testing.tiny import ARCHITECTURES, tiny_gguf
from golem_host.testing.tiny_bert import tiny_bert_gguf
from golem_host.testing.tiny_folded import fold
from golem_host.testing.tiny_gemma4 import DENSE, MIXTURE
from golem_host.testing.tiny_nomic_bert import tiny_nomic_gguf
from golem_host.text import tokenizer_from_gguf
from golem_host.weights import Gguf, open_gguf
from golem_host_chat.families import family_of
from golem_host_chat.model import ChatModel
from golem_host_chat.passes import Columns, Passes
from golem_host_embed.model import EmbedModel

SETTINGS: dict[str, Any] = {"context": 64, "parallel": 2, "kv-type": "f16", "repack": True}
YARN = {"type": "yarn", "factor": 4.0, "original_context_length": 128, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0}
LONGEST_REFUSAL = 4000
PLACE = re.compile(
    r"'[^']*'|metadata key \d+|tensor \d+|the header claims|the number of|GGUF|the version|the file is empty"
)
"""What a refusal is about: a key, a tensor, a numbered one whose name cannot be read, or the beginning of the file."""
ROOM = 1 << 30
"""Bytes a case may take beyond what the process has when it begins."""
SHARED_MEMORY = Path("/dev/shm")
TEXT = "Hello <s> the 12 \u00e9\u4f60"

Reader = Callable[[Path], None]
"""Does with a file what the host does; raises `ModelFileError` for one that is refused."""


def sources(folder: Path) -> list[tuple[File, Reader]]:
    """An orderly file of every family, as small as it can be, and what reads it."""
    small: dict[str, Any] = {"width": 32, "heads": 2, "feed_forward": 32}
    chats = [tiny_gguf(folder / f"{family}.gguf", family, **small) for family in ARCHITECTURES]
    yarn = {f"llama.rope.scaling.{key}": value for key, value in YARN.items()}
    chats += [
        tiny_gguf(folder / "yarn.gguf", rope_factors=True, tied=False, metadata=yarn, **small),
        tiny_gguf(folder / "mixtral.gguf", experts=4, experts_used=2, **small),
        tiny_gguf(folder / "fused.gguf", "qwen2", fused=True, **small),
        tiny_gguf(folder / "folded.gguf", "qwen35", tied=False, change=partial(fold, block=8), **small),
        tiny_gguf(folder / "dense.gguf", "gemma4", gemma4=DENSE),
        tiny_gguf(folder / "mixture.gguf", "gemma4", gemma4=MIXTURE),
    ]
    encoders = [tiny_bert_gguf(folder / "bert.gguf"), tiny_nomic_gguf(folder / "nomic.gguf")]
    files: list[tuple[File, Reader]] = [(file_of(path, _ask_chat), serve_chat) for path in chats]
    return files + [(file_of(path, tokenizer_from_gguf), serve_encoder) for path in encoders]


def _ask_chat(gguf: Gguf) -> None:
    family_of(gguf)
    tokenizer_from_gguf(gguf)


def serve_encoder(path: Path) -> None:
    model = EmbedModel(path)
    model.memory_bytes({})
    model.show(verbose=True)
    model.check()


def serve_chat(path: Path) -> None:
    model = ChatModel(path)
    model.memory_bytes(SETTINGS)
    model.show(verbose=True)
    model.check()
    with open_gguf(path) as gguf:
        tokenizer = tokenizer_from_gguf(gguf)
        tokenizer.decode(tokenizer.encode(TEXT), special=True)
        if library.load() is None:
            return
        backend = CpuBackend(threads=1)
        backend.widest_pass = 2
        passes = Passes(family_of(gguf), backend, slots=1, context=16)
        columns = Columns()
        columns.add(0, 0, [0, passes.vocab_size - 1], output=True)
        passes.run(columns)
        passes.close()


def ending(path: Path, reader: Reader) -> str:
    """How reading the file ends: "served", or "refused".

    Raises AssertionError for a refusal that does not say what it is about, and whatever `reader` raises that it should
    not.
    """
    try:
        reader(path)
    except ModelFileError as error:
        text = str(error)
        assert text.startswith(str(path)), f"the refusal does not name its file: {text[:200]}"
        assert len(text) < LONGEST_REFUSAL, f"a refusal of {len(text)} characters"
        assert text.isprintable(), f"the refusal holds control characters: {text!r}"
        assert PLACE.search(error.message), f"the refusal names neither key nor tensor: {text}"
        return "refused"
    return "served"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.disable()
    signal.signal(signal.SIGALRM, _too_long)
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as folder:
        files = sources(Path(folder))
        path = Path(folder) / "case.gguf"
        for file, reader in files:  # as they are; and what is imported late is in memory before it is capped
            path.write_bytes(file.data())
            assert ending(path, reader) == "served"
        cap_memory()
        for case in range(arguments.cases):
            random = Random(f"{arguments.seed} {case}")
            file, reader = random.choice(files)
            path.write_bytes(mutated(file, random))
            signal.alarm(60)
            try:
                ends[ending(path, reader)] += 1
            except Exception as error:
                kept = Path(tempfile.gettempdir()) / f"golem-host-fuzz-{arguments.seed}-{case}.gguf"
                kept.write_bytes(path.read_bytes())
                ends[_place(error)] += 1
                print(f"case {case} of seed {arguments.seed}: {kept}\n{traceback.format_exc()}", file=sys.stderr)
            signal.alarm(0)
    print(", ".join(f"{count} {end}" for end, count in ends.most_common()))
    return 0 if set(ends) <= {"served", "refused"} else 1


def _place(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"


def cap_memory() -> None:
    """No more than `ROOM` bytes beyond what the process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, hard))


def _too_long(*_: object) -> None:
    raise TimeoutError("a case took longer than a minute")


if __name__ == "__main__":
    sys.exit(main())
