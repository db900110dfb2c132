"""Checks of what is refused: bodies that cannot be read, unknown fields, unknown models."""

from __future__ import annotations

from typing import Any

import httpx

from golem_host.testing.conformance.caller import Caller
from golem_host.testing.conformance.envelopes import envelope_fault, message_of
from golem_host.testing.conformance.sample import Sample
from golem_host.testing.conformance.subject import Served, Subject, fail

UNKNOWN = "surprising_field"
NO_MODEL = "no-such-model"


class ErrorChecks(Subject):
    """Every refusal has the shape of its route's dialect and says what is wrong."""

    def test_bodies_that_cannot_be_read(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            for route in self.routes():
                if route.method not in ("POST", "PUT", "PATCH") or "{" in route.path:
                    continue
                for body in (b'{"model": ', b"[1, 2]", b'"text"', b"\xff\xfe"):
                    request = httpx.Request(
                        route.method,
                        f"http://localhost{route.path}",
                        content=body,
                        headers={"content-type": "application/json"},
                    )
                    caller = Caller(served.app, request)
                    what = f"{route.method} {route.path} with the body {body!r}"
                    await served.until(lambda: caller.done, f"{what} was not answered")  # noqa: B023
                    self._refused(caller.response, what, route.dialect)

        serve(scenario)

    def test_unknown_fields(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            for sample in self._with_body():
                response = await served.answer(sample.with_fields({UNKNOWN: "x"}))
                if response.status_code == 200 and self.takes_any_field:
                    continue
                if response.status_code == 200:
                    fail(
                        f"{sample} takes the unknown field {UNKNOWN!r} and ignores it: refuse what is not served, "
                        "`fields.refuse_others(...)` with the names of those that are. Where programs rely on it that "
                        'the original server ignores fields, say so: `takes_any_field = "the reason"`'
                    )
                dialect = self.route_of(sample).dialect
                self._refused(response, f"{sample} with an unknown field", dialect)
                if UNKNOWN not in message_of(response, dialect):
                    fail(f"{sample} refuses the field {UNKNOWN!r} without naming it: {response.text[:300]}")

        serve(scenario)

    def test_unknown_model(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            if not served.models:
                return
            for sample in self._with_body():
                if not sample.names_model:
                    continue
                response = await served.answer(sample.with_fields({"model": NO_MODEL}))
                if response.status_code == 200 and self.any_model:
                    continue
                if response.status_code == 200:
                    fail(
                        f"{sample} answers for the unknown model {NO_MODEL!r}: resolve names with "
                        "`host.registry.resolve(name, kind)`, or say `any_model = True`"
                    )
                dialect = self.route_of(sample).dialect
                self._refused(response, f"{sample} for an unknown model", dialect)
                if NO_MODEL not in message_of(response, dialect):
                    fail(f"{sample} refuses the model {NO_MODEL!r} without naming it: {response.text[:300]}")

        serve(scenario)

    def _with_body(self) -> list[Sample]:
        return [sample for sample in self.all_samples() if sample.has_body]

    def _refused(self, response: httpx.Response, what: str, dialect: str) -> None:
        if not 400 <= response.status_code < 500 and response.status_code != 501:
            fail(
                f"{what} is answered {response.status_code}, not 4xx: {response.text[:300]}\n"
                "Read bodies with `golem_host.api.read_json`, and raise BadRequest for what cannot be honoured."
            )
        fault = envelope_fault(response, dialect)
        if fault is not None:
            fail(f"{what}: an error of the dialect {dialect!r} has another shape: {fault}")
