"""Parsers of settings: what they take, what they refuse, and that nothing else escapes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host import config
from golem_host.config import Address, NamedPath
from golem_host.parsers import show_duration, show_size

PARSERS = [
    config.integer(0, 10),
    config.number(0, 1),
    config.boolean,
    config.duration,
    config.signed_duration,
    config.keep_alive,
    config.size,
    config.choice("text", "json"),
    config.text,
    config.path,
    config.named_path,
    config.address,
    config.listing,
    config.device,
]


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.text(max_size=40))
def test_any_text_gives_a_value_or_a_value_error(parse, text):
    try:
        parse(text)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (config.integer(), "-3", -3),
        (config.integer(1), " 12 ", 12),
        (config.number(), "1e-3", 1e-3),
        (config.number(), ".5", 0.5),
        (config.boolean, "Yes", True),
        (config.boolean, "0", False),
        (config.duration, "90", 90.0),
        (config.duration, "1h30m", 5400.0),
        (config.duration, "1.5s", 1.5),
        (config.duration, "250ms", 0.25),
        (config.duration, "0", 0.0),
        (config.signed_duration, "-1m", -60.0),
        (config.keep_alive, "5m", 300.0),
        (config.keep_alive, "-1", None),
        (config.keep_alive, "-1s", None),
        (config.size, "4096", 4096),
        (config.size, "256MiB", 256 << 20),
        (config.size, "256m", 256 << 20),
        (config.size, "1.5 GB", 1_500_000_000),
        (config.choice("text", "json"), "JSON", "json"),
        (config.device, "CPU", "cpu"),
        (config.device, "vulkan", "vulkan"),
        (config.device, "vulkan:02", "vulkan:2"),
        (config.device, "Vulkan:0123ABCD-0123-4567-89ab-0123456789AB", "vulkan:0123abcd0123456789ab0123456789ab"),
        (config.listing, "a, b", ("a", "b")),
        (config.path, "/a b/c", Path("/a b/c")),
        (config.path, "~/m.gguf", Path.home() / "m.gguf"),
        (config.named_path, "m.gguf", NamedPath(None, Path("m.gguf"))),
        (config.named_path, "small:1b=/m/x=y.gguf", NamedPath("small:1b", Path("/m/x=y.gguf"))),
        (config.named_path, "./a=b.gguf", NamedPath(None, Path("./a=b.gguf"))),
        (config.address, "127.0.0.1:0", Address("127.0.0.1", 0)),
        (config.address, "[::1]:8080", Address("::1", 8080)),
        (config.address, "my-host.local:80", Address("my-host.local", 80)),
    ],
)
def test_values(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (config.integer(1, 8), "9", "from 1 to 8"),
        (config.integer(1), "0", "at least 1"),
        (config.integer(), "1.0", "whole number"),
        (config.integer(), "1_000", "whole number"),
        (config.integer(), "٣", "whole number"),
        (config.integer(), "9" * 400, "whole number"),
        (config.number(), "nan", "number"),
        (config.number(), "inf", "number"),
        (config.number(), "1e999", "finite"),
        (config.boolean, "maybe", "true or false"),
        (config.duration, "-5", "not negative"),
        (config.duration, "5 minutes", "1h30m"),
        (config.duration, "", "1h30m"),
        (config.duration, "9" * 30, "1h30m"),
        (config.size, "0", "256MiB"),
        (config.size, "12 parsecs", "256MiB"),
        (config.choice("text", "json"), "jsn", "expected text or json, got 'jsn' (did you mean 'json'"),
        (config.choice("debug", "info", "error"), "loud", "expected debug, info or error, got 'loud'"),
        (config.device, "cpu:0", "expected cpu, vulkan, vulkan:INDEX or vulkan:UUID"),
        (config.device, "vulkan:", "golem-host devices lists them"),
        (config.device, "vulkan:12345", "got 'vulkan:12345'"),
        (config.device, "vulkan:" + "g" * 32, "expected cpu"),
        (config.text, "  ", "nothing"),
        (config.path, "", "path"),
        (config.path, "a\0b", "path"),
        (config.named_path, "=x.gguf", "NAME=PATH"),
        (config.named_path, "a b=x.gguf", "NAME=PATH"),
        (config.named_path, "name=", "path"),
        (config.address, "8080", "HOST:PORT"),
        (config.address, ":8080", "HOST:PORT"),
        (config.address, "::1:8080", "HOST:PORT"),
        (config.address, "127.0.0.1:65536", "HOST:PORT"),
        (config.listing, "a,,b", "commas"),
    ],
)
def test_refusals_say_what_is_expected(parse, text, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        parse(text)


@given(st.integers(0, 10**7))
def test_shown_durations_parse_back(milliseconds):
    seconds = milliseconds / 1000
    assert config.duration(show_duration(seconds)) == pytest.approx(seconds, rel=1e-5)


@given(st.integers(1, 2**50))
def test_shown_sizes_are_near(size):
    assert config.size(show_size(size)) == pytest.approx(size, rel=1e-2)
