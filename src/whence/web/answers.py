"""How the server says no: one sentence under `error`, with the status that fits."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from whence.errors import BadInput, WhenceError
from whence.web.jobs import Busy, Cancelled, TimedOut
from whence.web.results import Gone


class TooLarge(BadInput):
    """More tokens than the explorer takes."""


class Refusal(BaseModel):
    """What was found, what was expected, what to do."""

    error: str


# the first row that fits
STATUS: dict[type[Exception], int] = {
    Busy: 429,
    Gone: 410,
    Cancelled: 409,
    TooLarge: 413,
    TimedOut: 413,
    WhenceError: 422,
}
_SENTENCES: Mapping[str, str] = {
    "missing": "The field {name} is missing.",
    "json_invalid": "The request is not JSON: {message}.",
    "string_unicode": "The field {name} is not Unicode: it has half of a surrogate pair.",
    "extra_forbidden": "There is no field {name}.",
}
_KNOWN = {404: "There is nothing at this address.", 405: "This address does not take {method} requests."}
UNREADABLE = "The request cannot be read; it has to be a JSON object in UTF-8."


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Rows for the OpenAPI description; what the guard answers can happen everywhere."""
    content = {"application/json": {"schema": Refusal.model_json_schema()}}
    return {
        status: {"content": content, "description": HTTPStatus(status).phrase}
        for status in sorted({400, 403, 413, 422, *statuses})
    }


def install(app: FastAPI) -> None:
    app.add_exception_handler(WhenceError, _whence)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


def refusal(error: BaseException) -> tuple[int, str]:
    """Status and sentence of whatever ended a computation."""
    for kind, status in STATUS.items():
        if isinstance(error, kind):
            return status, " ".join(str(error).split())
    return 500, "The computation failed in a way nobody foresaw; the terminal of the server shows how."


async def _whence(request: Request, error: Exception) -> JSONResponse:
    status, sentence = refusal(error)
    wait = {"Retry-After": str(error.seconds)} if isinstance(error, Busy) else None
    return JSONResponse({"error": sentence}, status, headers=wait)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    name = ".".join(str(part) for part in first.get("loc", ())[1:]) or "body"
    message = str(first.get("ctx", {}).get("error", first.get("msg", ""))).rstrip(".")
    form = _SENTENCES.get(first.get("type", ""), "The field {name} does not fit: {message}.")
    status = 400 if first.get("type") == "json_invalid" else 422
    return JSONResponse({"error": _plain(form.format(name=repr(name[:80]), message=message[:300]))}, status)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    sentence = _KNOWN.get(error.status_code, UNREADABLE).format(method=request.method)
    return JSONResponse({"error": sentence}, error.status_code, headers=error.headers)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": refusal(error)[1]}, 500)


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
