"""What benchmarks/ computes and prints from what it measured. Nothing here says how fast anything is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

import embed
import memory_bus
from chat import MEMORY, chosen
from llama_vulkan import Peer, drawing_rates, prompt_rate
from model_files import REAL, weights_read
from report import as_json, markdown, memory_line, plain
from resident import Memory, Resident
from results import Result, compare
from rows import IK_LLAMA, LLAMA_SERVER, ROWS, Row
from shape_families import Q4_0, qwen3
from shapes import SHAPES, write_shape
from vulkan import rows as vulkan_rows
from vulkan_rates import Rates


def row(name: str = "one", wanted: float | None = 1.5, peer: str = LLAMA_SERVER) -> Row:
    return Row(name, "file", "work", peer, lambda who, chance: who(chance), lambda who, chance: who(chance), wanted)


def test_sides_take_turns_on_the_same_prompts() -> None:
    asked: list[tuple[str, int]] = []

    def contestant(name: str):
        def measure(chance: Random) -> float:
            asked.append((name, chance.randrange(10**9)))
            return 1.0

        return measure

    results = compare([row()], contestant("ours"), {LLAMA_SERVER: contestant("theirs")}, rounds=3)
    assert [name for name, _ in asked] == ["ours", "theirs", "theirs", "ours"] * 2
    prompts = [prompt for _, prompt in asked]
    assert prompts[::2] == prompts[1::2]
    assert len(set(prompts)) == 4
    assert [len(side) for side in (results[0].ours, results[0].theirs)] == [3, 3], "the first round warms up"


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    result = Result(row(), [1.0, 9.0, 4.0], [1.0, 3.0, 2.0])
    assert result.ratios == [1.0, 3.0, 2.0]
    assert result.ratio == 2.0


def test_each_row_is_measured_against_its_own_peer() -> None:
    peers = {LLAMA_SERVER: lambda chance: 2.0, IK_LLAMA: lambda chance: 4.0}
    results = compare([row("a"), row("b", peer=IK_LLAMA)], lambda chance: 8.0, peers, rounds=1)
    assert [result.ratio for result in results] == [4.0, 2.0]


@pytest.mark.parametrize(("ours", "verdict"), [(1.4, "not reached"), (1.5, "reached")])
def test_the_tables_say_what_was_reached(ours: float, verdict: str) -> None:
    results = [Result(row(), [ours], [1.0]), Result(row("known", wanted=None), [1.0], [1.0])]
    for page in (plain({"machine": "this"}, results), markdown({"machine": "this"}, results)):
        judged, known = page.splitlines()[-2:]
        assert judged.rstrip(" |").endswith(verdict) and "1.5" in judged
        assert "reached" not in known
        assert "this" in page


def test_json_has_the_rates_of_every_round() -> None:
    found = json.loads(as_json({"machine": "this"}, [Result(row(), [3.0, 1.0], [1.0, 1.0])], []))
    assert found["rows"] == [{"row": "one", "unit": "t/s", "ours": [3.0, 1.0], "theirs": [1.0, 1.0], "ratio": 2.0}]


@pytest.mark.parametrize(("rss", "verdict"), [(1250.0, "not reached"), (1240.0, ": reached")])
def test_memory_counts_without_the_caches(rss: float, verdict: str) -> None:
    held = Resident(rss=rss, anonymous=10, huge=2)
    assert verdict in memory_line(Memory("file.gguf", file=1000, caches=95, ours=held, theirs=held))


def test_rows_are_chosen_by_patterns() -> None:
    rows, memory = chosen(ROWS, "smollm2-*,gemma3-draw")
    assert {one.file for one in rows} == {"smollm2", "gemma3"} and not memory
    assert chosen(ROWS, "*") == (ROWS, True)
    assert chosen(ROWS, MEMORY) == ([], True)
    with pytest.raises(SystemExit, match="no row 'smol'"):
        chosen(ROWS, "smollm2-*,smol")
    names = [one.name for one in ROWS]
    assert len(set(names)) == len(names)


def test_weights_read_leave_out_tables_that_give_a_row(tmp_path: Path) -> None:
    read = {}
    for tied in (True, False):
        path = tmp_path / f"{tied}.gguf"
        shape = qwen3(
            Q4_0, layers=1, width=256, feed_forward=256, heads=2, kv_heads=1, head_width=64, tokens=2048, tied=tied
        )
        write_shape(shape, path)
        read[tied] = weights_read(path)
    matrices = 256 * (128 + 64 + 64 + 128 + 3 * 256) // 32 * 18
    norms = 4 * (256 + 256 + 64 + 64 + 256)
    assert read[True] == read[False] == 2048 * 210 + matrices + norms


class Embedder:
    """Takes a second for everything."""

    def __init__(self) -> None:
        self.asked: list[list[Any]] = []

    def embed(self, texts: list[Any]) -> float:
        self.asked.append(texts)
        return 1.0


def test_embeddings_are_of_texts_of_ten_to_sixty_tokens() -> None:
    for make in (embed.tokens, embed.words):
        who = Embedder()
        rate = embed.one_request(make, who, Random(1))
        [texts] = who.asked
        lengths = [len(text.split()) + 2 if isinstance(text, str) else len(text) for text in texts]
        assert len(texts) == 64 and rate == sum(lengths)
        assert 10 <= min(lengths) < max(lengths) <= 60
        assert texts == make(Random(1), 64)[0] != make(Random(2), 64)[0]


def test_clients_ask_for_one_text_each() -> None:
    who = Embedder()
    assert embed.clients(who, Random(1)) > 0
    assert sorted(text for [text] in who.asked) == sorted(embed.tokens(Random(1), 32)[0])


def test_embedding_rows_have_peers_and_names_of_their_own() -> None:
    names = [one.name for one in embed.ROWS]
    assert len(set(names)) == len(names)
    assert {one.file for one in embed.ROWS} <= {*SHAPES, *REAL}


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_the_plain_read_gives_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_bus, "MIB", 8)
    with memory_bus.plain_read(threads=3) as bus:
        assert bus.rate("ordinary") > 0


def test_what_llama_cpps_benchmarks_print_is_read() -> None:
    runs = [{"n_prompt": 0, "n_gen": 64, "avg_ts": 9.5}, {"n_prompt": 480, "n_gen": 0, "avg_ts": 1234.5}]
    assert prompt_rate(json.dumps(runs)) == 1234.5
    assert prompt_rate("") is None and prompt_rate("[]") is None
    printed = ["main: n_kv_max = 1024", *(json.dumps({"pp": 8, "pl": pl, "speed_tg": 10.0 * pl}) for pl in (1, 4)), ""]
    assert drawing_rates(printed) == {1: 10.0, 4: 40.0}


def test_rates_on_a_device_stand_beside_the_peers_and_its_bandwidth(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    shape = qwen3(Q4_0, layers=1, width=256, feed_forward=256, heads=2, kv_heads=1, head_width=64, tokens=2048)
    write_shape(shape, path)
    rates = Rates(480.0, 480, {1: 10.0, 2: 20.0, 4: 40.0, 8: 80.0}, 50, 1e-5, 1e-5, 1.0)
    one, *_, prompt = vulkan_rows(path, rates, Peer(240.0, {1: 5.0}))
    assert one.cells(weights_read(path) * 20.0) == ("m.gguf", "one answer", "10.0 t/s", "50%", "5.0 t/s", "2.00")
    assert prompt.cells(1.0)[1:] == ("prompt of 480", "480.0 t/s", "", "240.0 t/s", "2.00")
    assert vulkan_rows(path, rates, None)[1].cells(1.0)[4:] == ("", "")
