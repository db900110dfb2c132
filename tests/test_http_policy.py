"""The listener's policy through the whole application: Host, Origin, keys, sizes; and the strict table."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.errors import Forbidden, UsageError
from golem_host.hookspecs import Route
from golem_host.http.body import read_json
from golem_host.http.hosts import HostRule, host_name, own_names
from golem_host.http.keys import configured_keys
from golem_host.http.origins import OriginRule
from golem_host.http.policy import STRICT_BODY
from golem_host.testing.fakes import RoutesPlugin, plugin_set
from golem_host.testing.inprocess import running, settings_of


async def echo(request: Any, host: Any) -> dict[str, Any]:
    return await read_json(request)


async def form(request: Any, host: Any) -> dict[str, Any]:
    return {"fields": sorted(await request.form())}


async def hold(request: Any, host: Any) -> dict[str, Any]:
    await asyncio.sleep(0.2)
    return {}


ROUTES = [
    Route("POST", "/v1/echo", echo, "openai", "Echoes"),
    Route("POST", "/v1/detail", echo, "detail", "Echoes"),
    Route("POST", "/v1/form", form, "openai", "Takes a form"),
    Route("GET", "/v1/hold", hold, "openai", "Takes a while"),
]


def send(
    folder: Path, *requests: tuple[str, str, dict[str, Any]], **flags: str | Sequence[str]
) -> list[httpx.Response]:
    """The answers to (method, path, options of httpx) under the given settings."""

    async def go() -> list[httpx.Response]:
        async with running(settings_of(folder, flags), plugin_set(echo=RoutesPlugin(ROUTES))) as (_, client):
            return [await client.request(method, path, **options) for method, path, options in requests]

    return asyncio.run(go())


def headers(**values: str) -> dict[str, Any]:
    return {"headers": {name.replace("_", "-"): value for name, value in values.items()}}


# Host


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("LocalHost:8080", "localhost"),
        ("localhost.", "localhost"),
        ("[::1]:80", "::1"),
        ("[::1]", "::1"),
        ("127.0.0.1:", "127.0.0.1"),
        ("a:b", None),
        ("user@localhost", None),
        ("localhost:80:80", None),
        ("local host", None),
        ("", None),
        ("localhost/x", None),
        ("l\u00f6calhost", None),
    ],
)
def test_host_names(header: str, name: str | None) -> None:
    assert host_name(header) == name


def allowed(rule: HostRule, header: str) -> bool:
    try:
        rule.check(header)
    except Forbidden:
        return False
    return True


def test_a_loopback_listener_takes_loopback_names_and_its_own() -> None:
    rule = HostRule("127.0.0.1", ["proxy.example", "*.lan.example"])
    own = sorted(own_names())
    for header in ("localhost", "127.0.0.1:8080", "127.1.2.3", "[::1]:1", "chat.localhost", "PROXY.example:80", *own):
        assert allowed(rule, header), header
    for header in ("a.lan.example", "b.a.lan.example"):
        assert allowed(rule, header), header
    for header in ("evil.example", "localhost.evil.example", "notlocalhost", "192.168.1.5", "0.0.0.0", "lan.example",
                   "evillan.example", "127.1", "2130706433", "[::ffff:1.2.3.4]", "x", "*"):  # fmt: skip
        assert not allowed(rule, header), header


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.168.1.5"])
def test_a_listener_on_the_network_takes_addresses_but_no_foreign_names(bind: str) -> None:
    rule = HostRule(bind, ["box.example"])
    for header in ("192.168.1.5:8080", "10.0.0.1", "[fe80::1]:80", "localhost", "box.example"):
        assert allowed(rule, header), header
    for header in ("evil.example", "192.168.1.5.evil.example"):
        assert not allowed(rule, header), header


@given(st.text(max_size=40) | st.from_regex(r"[a-z.]{0,12}(localhost|127\.0\.0\.1|\[::1\])[a-z.:@/\[\]0-9]{0,12}"))
def test_whatever_passes_the_host_check_means_this_machine(header: str) -> None:
    if allowed(HostRule("127.0.0.1"), header):
        name = host_name(header)
        assert name is not None
        known = name in ("localhost", *own_names()) or name.endswith(".localhost")
        assert known or ipaddress.ip_address(name).is_loopback


@given(st.text(max_size=40) | st.from_regex(r"https?://[a-z.]{0,9}localhost[a-z.:@/0-9]{0,9}"), st.text(max_size=20))
def test_whatever_passes_the_origin_check_is_local_or_the_host_itself(origin: str, host: str) -> None:
    if OriginRule().allows(origin, host):
        authority = origin.lower().partition("://")[2]
        assert authority == host.lower() or allowed(HostRule("127.0.0.1"), authority)


def test_a_star_takes_any_name() -> None:
    assert allowed(HostRule("127.0.0.1", ["*"]), "anything.example")


def test_a_foreign_host_is_refused_with_the_way_out(tmp_path: Path) -> None:
    openai, ollama, detail, forwarded = send(
        tmp_path,
        ("GET", "/v1/models", headers(Host="rebound.example:8080")),
        ("GET", "/api/tags", headers(Host="rebound.example")),
        ("POST", "/v1/detail", headers(Host="rebound.example")),
        ("GET", "/health", headers(Host="rebound.example", X_Forwarded_Host="localhost")),
    )
    message = "Host 'rebound.example' is not served here; if it should be, start the host with --allow-host NAME"
    assert [answer.status_code for answer in (openai, ollama, detail, forwarded)] == [403] * 4
    assert openai.json()["error"]["message"] == message and openai.json()["error"]["type"] == "permission_error"
    assert ollama.json() == {"error": message}
    assert detail.json() == {"detail": message}


# Origin and CORS


@pytest.mark.parametrize(
    ("origin", "host", "expected"),
    [
        ("http://localhost:3000", "localhost", True),
        ("https://127.0.0.1", "localhost", True),
        ("http://[::1]:5173", "localhost", True),
        ("http://app.localhost", "localhost", True),
        ("https://app.example", "localhost", True),
        ("http://box.lan:8080", "box.lan:8080", True),
        ("http://box.lan:9090", "box.lan:8080", False),
        ("https://evil.example", "localhost", False),
        ("http://localhost.evil.example", "localhost", False),
        ("http://localhost@evil.example", "localhost", False),
        ("null", "localhost", False),
        ("file://", "localhost", False),
        ("app://obsidian.md", "localhost", True),
        ("", "", False),
    ],
)
def test_origins(origin: str, host: str, expected: bool) -> None:
    assert OriginRule(["https://App.example/", "app://obsidian.md"]).allows(origin, host) is expected


def test_a_preflight_reflects_the_requested_headers_whatever_they_are(tmp_path: Path) -> None:
    wanted = "authorization, x-stainless-future-header, OpenAI-Beta"
    preflight = headers(
        Origin="http://localhost:3000",
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers=wanted,
    )
    for path in ("/v1/echo", "/v1/models/x", "/nowhere"):
        [answer] = send(tmp_path, ("OPTIONS", path, preflight), api_key="secret")
        assert answer.status_code == 204 and answer.content == b""
        assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert answer.headers["access-control-allow-headers"] == wanted
        assert "POST" in answer.headers["access-control-allow-methods"] and answer.headers["vary"] == "Origin"


def test_an_allowed_page_can_read_answers_and_errors(tmp_path: Path) -> None:
    origin = headers(Origin="https://app.example")
    good, bad, missing, unauthorized = send(
        tmp_path,
        ("POST", "/v1/echo", {"json": {}, "headers": {"Origin": "https://app.example", "X-Api-Key": "k"}}),
        ("POST", "/v1/echo", {"content": b"{", "headers": {"Origin": "https://app.example", "X-Api-Key": "k"}}),
        ("GET", "/nowhere", {"headers": {"Origin": "https://app.example", "X-Api-Key": "k"}}),
        ("GET", "/v1/models", origin),
        cors_origin="https://app.example",
        api_key="k",
    )
    assert [answer.status_code for answer in (good, bad, missing, unauthorized)] == [200, 400, 404, 401]
    for answer in (good, bad, missing, unauthorized):
        assert answer.headers["access-control-allow-origin"] == "https://app.example"


def test_a_foreign_page_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    # A form post needs no preflight, so withholding CORS headers alone would still let a page use the model.
    simple, preflight = send(
        tmp_path,
        ("POST", "/v1/echo", {"content": b"{}", "headers": {"Origin": "https://evil.example"}}),
        ("OPTIONS", "/v1/echo", headers(Origin="https://evil.example", Access_Control_Request_Method="POST")),
    )
    for answer in (simple, preflight):
        assert answer.status_code == 403 and "access-control-allow-origin" not in answer.headers
        assert "--cors-origin" in answer.json()["error"]["message"]


def test_options_without_a_page_lists_the_methods(tmp_path: Path) -> None:
    [answer] = send(tmp_path, ("OPTIONS", "/v1/echo", {}), api_key="secret")
    assert answer.status_code == 204 and "POST" in answer.headers["allow"]


# API keys


def test_keys_are_asked_for_everywhere_but_at_health(tmp_path: Path) -> None:
    answers = send(
        tmp_path,
        ("GET", "/v1/models", {}),
        ("GET", "/v1/models", headers(Authorization="Bearer wrong")),
        ("GET", "/v1/models", headers(Authorization="Basic one")),
        ("GET", "/v1/models", headers(X_Api_Key="")),
        ("GET", "/nowhere", {}),
        ("GET", "/health", {}),
        ("GET", "/v1/health", {}),
        ("GET", "/v1/models", headers(Authorization="Bearer one")),
        ("GET", "/v1/models", headers(Authorization="bearer  two ")),
        ("GET", "/v1/models", headers(X_Api_Key="two")),
        ("GET", "/v1/models", headers(Authorization="Bearer wrong", X_Api_Key="one")),
        api_key=["one", "two"],
    )
    assert [answer.status_code for answer in answers] == [401, 401, 401, 401, 401, 200, 200, 200, 200, 200, 200]
    assert answers[0].json()["error"] == {
        "message": "Invalid API Key", "type": "authentication_error", "param": None, "code": "invalid_api_key",
    }  # fmt: skip
    assert answers[0].headers["www-authenticate"] == "Bearer"


def test_without_keys_any_key_is_ignored(tmp_path: Path) -> None:
    [answer] = send(tmp_path, ("GET", "/v1/models", headers(Authorization="Bearer whatever")))
    assert answer.status_code == 200


def test_keys_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# office\n\n first \nsecond\n", encoding="utf-8")
    settings = settings_of(tmp_path, {"api_key": "third", "api_key_file": str(path)})
    assert configured_keys(settings) == ["third", "first", "second"]


@pytest.mark.parametrize("content", [None, b"", b"# nothing\n\n", b"\xff\xfe"])
def test_a_key_file_without_keys_does_not_leave_the_host_open(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="--api-key-file"):
        configured_keys(settings_of(tmp_path, {"api_key_file": str(path)}))


# Bodies


def test_the_cap_holds_for_every_route(tmp_path: Path) -> None:
    at_cap, over, raw = send(
        tmp_path,
        ("POST", "/v1/echo", {"content": b'{"a": "' + b"x" * 91 + b'"}'}),
        ("POST", "/v1/echo", {"content": b'{"a": "' + b"x" * 92 + b'"}'}),
        ("POST", "/api/show", {"content": b"x" * 101}),
        max_body="100",
    )
    assert [answer.status_code for answer in (at_cap, over, raw)] == [200, 413, 413]
    assert raw.json() == {"error": "request too large: the body is over 100 B, the most taken here"}


def test_the_cap_is_not_for_uploads_unless_the_listener_is_strict(tmp_path: Path) -> None:
    content = b"x" * (STRICT_BODY + 1)
    upload = ("POST", f"/api/blobs/sha256:{hashlib.sha256(content).hexdigest()}", {"content": content})
    [strict] = send(tmp_path, upload, listener="strict")
    [kept] = send(tmp_path, upload, max_body="100")
    assert (strict.status_code, kept.status_code) == (413, 201)


def test_any_content_type_is_taken_but_a_forms_or_a_compressed_body(tmp_path: Path) -> None:
    types = ("application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8", "nonsense")
    taken = send(tmp_path, *(("POST", "/v1/echo", {"content": b"{}", **headers(Content_Type=t)}) for t in types))
    assert [answer.json() for answer in taken] == [{}] * len(types)
    refused = send(
        tmp_path,
        ("POST", "/v1/echo", {"content": b"{}", **headers(Content_Type="multipart/form-data; boundary=x")}),
        ("POST", "/v1/echo", {"content": b"{}", **headers(Content_Encoding="gzip")}),
    )
    assert [answer.status_code for answer in refused] == [415, 415]


# The strict listener


def test_the_strict_table(tmp_path: Path) -> None:
    form_type = headers(Content_Type="multipart/form-data; boundary=x")
    cases: list[tuple[tuple[str, str, dict[str, Any]], int, str]] = [
        (("POST", "/v1/echo", {"json": {}}), 200, ""),
        (("POST", "/v1/echo", {"content": b"{}", **headers(Content_Type=" Application/JSON;charset=utf-8")}), 200, ""),
        (("GET", "/health", headers(Host="[::1]:9")), 200, ""),
        (("GET", "/health", headers(Host="app.localhost")), 403, "Host 'app.localhost' is not served"),
        (("POST", "/v1/echo", {"content": _pieces(b"{}")}), 400, "send Content-Length"),
        (("POST", "/v1/echo", {"content": b"x" * (16 * 2**20 + 1), **headers(Content_Type="application/json")}), 413,
         "request too large"),
        (("POST", "/v1/echo", {"content": b"{}"}), 415, "send Content-Type: application/json"),
        (("POST", "/v1/echo", {"content": b"{}", **headers(Content_Type="text/plain")}), 415, "send Content-Type"),
        (("POST", "/v1/form", {"content": b"--x--\r\n", **form_type}), 200, ""),
        (("POST", f"/api/blobs/sha256:{hashlib.sha256(b'raw').hexdigest()}", {"content": b"raw"}), 201, ""),
        (("GET", "/health?" + "x" * 17_000, {}), 400, "the request line is over 16 KiB"),
        (("GET", "/health", headers(X="y" * 17_000)), 400, "a header line is over 16 KiB"),
        (("GET", "/health", {"headers": {f"X-{n}": "y" for n in range(101)}}), 400, "a header line is over 16 KiB, or"),
    ]  # fmt: skip
    answers = send(tmp_path, *(request for request, _, _ in cases), listener="strict")
    for answer, (request, status, words) in zip(answers, cases, strict=True):
        assert answer.status_code == status, (request, answer.text)
        if status >= 400:
            assert answer.text.startswith(words) and answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_form_cannot_smuggle_json_past_the_strict_type_rule(tmp_path: Path) -> None:
    form_type = headers(Content_Type="multipart/form-data; boundary=x")
    [answer] = send(tmp_path, ("POST", "/v1/echo", {"content": b"{}", **form_type}), listener="strict")
    assert answer.status_code == 415


def test_the_strict_listener_serves_32_at_once(tmp_path: Path) -> None:
    async def go() -> list[int]:
        plugins = plugin_set(echo=RoutesPlugin(ROUTES))
        async with running(settings_of(tmp_path, {"listener": "strict"}), plugins) as (_, client):
            answers = await asyncio.gather(*(client.get("/v1/hold") for _ in range(40)))
            after = await client.get("/v1/hold")
            return [*sorted(answer.status_code for answer in answers), after.status_code]

    assert asyncio.run(go()) == [200] * 32 + [503] * 8 + [200]


async def _pieces(*pieces: bytes) -> Any:
    for piece in pieces:
        yield piece
