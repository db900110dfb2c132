"""Models from a hub: a small hub on this machine that can break off, lie and refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fake_hub import FakeHub, fake_hub, sha256
from golem_host import hub
from golem_host.errors import OperatorError, UsageError
from golem_host.hub import Reference, RemoteFile

CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def fake(monkeypatch) -> Iterator[FakeHub]:
    with fake_hub(monkeypatch) as hub:
        yield hub


class Told:
    """What a watcher is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int | None]] = []

    def chosen(self, files: Sequence[RemoteFile]) -> None:
        self.events += [(file.name, 0) for file in files]

    def fetching(self, file: RemoteFile, have: int) -> None:
        self.events.append((file.name, have))

    def verifying(self, file: RemoteFile) -> None:
        self.events.append((file.name, None))


def pull(folder: Path, quantization: str | None = None) -> Path:
    return hub.pull(Reference("owner/repo", quantization), folder, Told()).files[0]


def test_a_file_is_fetched_checked_and_kept(fake, tmp_path):
    fake.files = {"small-Q4_0.gguf": b"small", "small-Q4_K_M.gguf": CONTENT, "mmproj-F16.gguf": b"eyes"}
    pull(tmp_path)
    path = pull(tmp_path)
    assert (path, path.read_bytes()) == (tmp_path / "owner/repo/small-Q4_K_M.gguf", CONTENT)
    assert sum("resolve" in request for request, _ in fake.requests) == 1
    assert [file.name for file in path.parent.iterdir()] == ["small-Q4_K_M.gguf"]


def test_a_connection_that_breaks_is_taken_up_where_it_stopped(fake, tmp_path):
    fake.files = {"m-Q8_0.gguf": CONTENT}
    fake.break_after = len(CONTENT) // 3
    assert pull(tmp_path).read_bytes() == CONTENT
    starts = [start for request, start in fake.requests if "resolve" in request]
    assert starts[:3] == [None, f"bytes={fake.break_after}-", f"bytes={2 * fake.break_after}-"]


def test_a_later_call_goes_on_from_what_arrived(fake, tmp_path):
    fake.files = {"m-Q8_0.gguf": CONTENT}
    fake.break_after = len(CONTENT) // 20
    with pytest.raises(OperatorError, match="stops sending at"):
        pull(tmp_path)
    fake.break_after = None
    fake.requests.clear()
    assert pull(tmp_path).read_bytes() == CONTENT
    assert [start for request, start in fake.requests if "resolve" in request] == [f"bytes={len(CONTENT) // 20 * 5}-"]


def test_a_hub_without_ranges_starts_over(fake, tmp_path):
    fake.files = {"m-Q8_0.gguf": CONTENT}
    fake.break_after, fake.ranges = len(CONTENT) // 20, False
    with pytest.raises(OperatorError):
        pull(tmp_path)
    fake.break_after = None
    assert pull(tmp_path).read_bytes() == CONTENT


def test_a_file_other_than_announced_is_not_kept(fake, tmp_path):
    fake.files = {"m-Q8_0.gguf": CONTENT}
    fake.announced = {"m-Q8_0.gguf": sha256(b"another")}
    with pytest.raises(OperatorError, match="arrived damaged"):
        pull(tmp_path)
    assert list((tmp_path / "owner/repo").iterdir()) == []


def test_all_parts_of_a_split_file_are_fetched(fake, tmp_path):
    fake.files = {f"Q8_0/m-Q8_0-0000{n}-of-00003.gguf": b"part %d" % n for n in (1, 2, 3)}
    path = pull(tmp_path, "q8_0")
    assert path == tmp_path / "owner/repo/Q8_0/m-Q8_0-00001-of-00003.gguf"
    assert sorted(file.read_bytes() for file in path.parent.iterdir()) == [b"part 1", b"part 2", b"part 3"]
    del fake.files["Q8_0/m-Q8_0-00002-of-00003.gguf"]
    with pytest.raises(OperatorError, match="2 of 3 parts"):
        pull(tmp_path, "Q8_0")


def test_what_is_not_there_is_named(fake, tmp_path):
    fake.files = {"m-Q8_0.gguf": b"x", "m-IQ4_XS.gguf": b"y"}
    with pytest.raises(UsageError, match=r"has no Q8_K \(did you mean 'Q8_0'\?\); it has: IQ4_XS, Q8_0"):
        pull(tmp_path, "Q8_K")
    fake.files = {}
    with pytest.raises(OperatorError, match="has no GGUF file"):
        pull(tmp_path)
    with pytest.raises(OperatorError, match="hf.co/owner/absent: no such repository"):
        hub.pull(Reference("owner/absent", None), tmp_path, Told())


def test_a_closed_repository_needs_the_token(fake, tmp_path, monkeypatch):
    fake.files = {"m-Q8_0.gguf": CONTENT}
    fake.token = "secret"
    with pytest.raises(OperatorError, match="HF_TOKEN"):
        pull(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert pull(tmp_path).read_bytes() == CONTENT


def test_names_that_leave_the_folder_are_refused(fake, tmp_path):
    fake.files = {"../escaped-Q8_0.gguf": b"x"}
    with pytest.raises(OperatorError, match="unusable name"):
        pull(tmp_path)


def test_a_hub_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(OperatorError, match=r"the hub at http://127\.0\.0\.1:9 could not be asked"):
        pull(tmp_path)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("hf.co/a/b", Reference("a/b", None)),
        ("hf.co/bartowski/x-1.5B-GGUF:Q4_K_M", Reference("bartowski/x-1.5B-GGUF", "Q4_K_M")),
        ("https://huggingface.co/a/b/", Reference("a/b", None)),
        ("llama3", None),
    ],
)
def test_references(name, reference):
    assert hub.parse_reference(name) == reference


@pytest.mark.parametrize("name", ["hf.co/a", "hf.co/a/b/c", "hf.co/../b", "hf.co/a/b:", "hf.co/a/b?c"])
def test_malformed_references(name):
    with pytest.raises(UsageError, match="expected hf.co/OWNER/REPO"):
        hub.parse_reference(name)


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("gemma-3-270m-q4_k_m.gguf", "Q4_K_M"),
        ("x-IQ2_XXS.gguf", "IQ2_XXS"),
        ("BF16/x-BF16-00001-of-00002.gguf", "BF16"),
        ("model-f16.gguf", "F16"),
        ("model.gguf", "UNNAMED"),
    ],
)
def test_quantization_of_a_name(name, quantization):
    assert hub.quantization_of(name) == quantization


def test_the_usual_quantization_is_preferred():
    files = [RemoteFile(f"m-{name}.gguf", 1, "0" * 64) for name in ("F16", "Q8_0", "Q4_K_M", "IQ1_S")]
    assert hub.choose(files, Reference("a/b", None)) == [files[2]]
    assert hub.choose(files[3:], Reference("a/b", None)) == [files[3]]
