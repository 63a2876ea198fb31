"""The routes of the explorer."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from os import PathLike
from typing import Annotated, Any, Literal

import xarray
from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Lifespan

from whence.errors import BadInput, Unsupported
from whence.measures.registry import measures as registered
from whence.models.load import Model
from whence.page.bundle import style
from whence.page.report import page as page_of
from whence.page.why import payload as _reasons
from whence.plot.lens import is_read_out
from whence.plot.why import is_explained
from whence.web import answers, lens, pages, wire
from whence.web.guard import LOOPBACK, Guard
from whence.web.jobs import Job
from whence.web.limits import Limits
from whence.web.results import Gone, one_head
from whence.web.service import ALONE, WHENCE, Ask, Service

TICK = 0.1  # seconds between looks at the progress of a job
RETRY = 500  # milliseconds after which a browser that lost the connection tries again
BINARY = "application/octet-stream"
NETCDF = "application/x-netcdf"
Keys = Annotated[str, Field(pattern=r"^[0-9a-f]{32}(,[0-9a-f]{32}){0,31}$")]
Key = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Ticket = Annotated[str, Path(pattern=r"^[0-9A-Za-z_-]{16}$")]
router = APIRouter()


class Placed(BaseModel):
    """Where a result is, or the ticket of the job that makes it."""

    state: Literal["done", "waiting"]
    key: str
    ticket: str | None = None


class PageRequest(BaseModel):
    """What a saved page shows: results of the sentence, of a changed one, of another model; and what is selected."""

    model_config = ConfigDict(extra="forbid")

    main: Keys
    edited: Keys | None = None
    other: Keys | None = None
    why: Key | None = None
    edited_why: Key | None = None
    state: Annotated[str, Field(max_length=20_000)] = ""


class Explorer(FastAPI):
    """The application, whose description names the models and measures there are."""

    def __init__(self, service: Service, lifespan: Lifespan["Explorer"]):
        super().__init__(title="whence", version=WHENCE, docs_url=None, redoc_url=None, lifespan=lifespan)
        self.service = service

    def openapi(self) -> dict[str, Any]:
        described = super().openapi()
        fields = described["components"]["schemas"]["Ask"]["properties"]
        fields["model"]["enum"] = list(self.service.models)
        fields["measures"]["items"]["enum"] = [*registered(), *ALONE]
        return described


def create(
    models: Mapping[str, Model],
    limits: Limits | None = None,
    hosts: Iterable[str] = (),
    token: str | None = None,
    lenses: Iterable[str | PathLike[str]] = (),
) -> Explorer:
    """The application for these models; `hosts` are names it answers to besides those of this machine.

    With a `token` it answers only those who know it. `lenses` are files or folders of fitted lenses.
    """
    bounds = limits or Limits()
    service = Service(models, bounds, lens.lenses(lenses, models))

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.jobs.close()

    app = Explorer(service, living)
    app.include_router(router)
    answers.install(app)
    app.add_middleware(Guard, hosts=(*LOOPBACK, *hosts), limits=bounds, token=token)
    return app


def _service(request: Request) -> Service:
    return request.app.service


Here = Annotated[Service, Depends(_service)]


# The page


@router.get("/", include_in_schema=False)
async def page() -> HTMLResponse:
    return HTMLResponse(pages.page())


@router.get("/page.css", include_in_schema=False)
async def sheet() -> PlainTextResponse:
    return PlainTextResponse(style(), media_type="text/css")


@router.get("/favicon.ico", include_in_schema=False)
async def icon() -> Response:
    return Response(status_code=204)


@router.get("/modules/{name:path}", include_in_schema=False)
async def module(name: str) -> PlainTextResponse:
    if name not in pages.modules():
        raise Gone("There is no such module.")
    return PlainTextResponse(pages.modules()[name], media_type="text/javascript")


# Measuring


@router.get("/api/about", responses=answers.documented())
async def about(service: Here) -> dict[str, Any]:
    """The models, the measures and the limits."""
    return service.about()


@router.post("/api/measure", response_model=Placed, responses={202: {"model": Placed}, **answers.documented(409, 429)})
async def measure(query: Ask, service: Here) -> Response:
    """The key of a result that exists, or is finished while the answer is held back; else a ticket (202)."""
    key, ticket = service.ask(query)
    if ticket is not None and not await _ended(service.jobs.of(ticket), service.limits.patience):
        return JSONResponse({"state": "waiting", "key": key, "ticket": ticket}, 202)
    return JSONResponse({"state": "done", "key": key, "ticket": None})


def _job(ticket: Ticket, service: Here) -> Job:
    return service.jobs.of(ticket)


@router.get("/api/jobs/{ticket}/events", response_class=EventSourceResponse, responses=answers.documented(410))
async def events(job: Annotated[Job, Depends(_job)], service: Here) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events: waiting, progress, and then one of done, failed, cancelled."""
    yield ServerSentEvent(retry=RETRY)
    ended, sent = _end_of(job), None
    while not ended.done():
        news = _news(service, job)
        if news != sent:
            yield news
        sent = news
        await asyncio.wait([ended], timeout=TICK)
    error = job.finished.exception()
    status, sentence = (200, "") if error is None else answers.refusal(error)
    name = {200: "done", 409: "cancelled"}.get(status, "failed")
    yield ServerSentEvent(event=name, data={"key": job.key, "error": sentence, "status": status})


@router.delete("/api/jobs/{ticket}", status_code=204, responses=answers.documented(410))
async def cancel(ticket: Ticket, service: Here) -> Response:
    """Gives the ticket up; the job ends unless somebody else waits for it."""
    service.jobs.give_up(ticket)
    return Response(status_code=204)


# Results


@router.get(
    "/api/results/{keys}",
    response_class=Response,
    responses={200: {"content": {BINARY: {}}}, **answers.documented(410)},
)
async def results(
    keys: Annotated[Keys, Path()], service: Here, have: Annotated[str, Query(max_length=4000)] = ""
) -> Response:
    """Results of one sentence, put together, as whence.web.wire describes; arrays named in `have` are left out."""
    body = await asyncio.to_thread(lambda: wire.packed(_merged(service, keys), have.split(",")))
    return Response(body, media_type=BINARY)


@router.get("/api/why/{key}", responses=answers.documented(410))
async def why(key: Annotated[Key, Path()], service: Here) -> dict[str, Any]:
    """Why a prediction is made, as the page reads it: the result of the measure `why`."""
    return await asyncio.to_thread(lambda: _reasons(_explained(service.results.get(key))))


@router.get("/api/lens/{key}", responses=answers.documented(410))
async def both_sides(key: Annotated[Key, Path()], service: Here) -> dict[str, Any]:
    """One hidden token from both sides, as the page reads it: the result of the measure `lens`."""
    return await asyncio.to_thread(lambda: lens.page(service.results.get(key)))


@router.get("/api/answer/{key}", responses=answers.documented(410))
async def answer(key: Annotated[Key, Path()], service: Here) -> dict[str, Any]:
    """What a decoder said: the result of the measure `answer`."""
    dataset = service.results.get(key)
    if "ended" not in dataset.attrs:
        raise BadInput("This result is no answer; ask for the measure 'answer'.")
    ended = bool(dataset.attrs["ended"])
    return {"tokens": dataset["token"].values.tolist(), "text": dataset.attrs["answer"], "ended": ended}


@router.get(
    "/api/map/{key}/{head}",
    response_class=Response,
    responses={200: {"content": {BINARY: {}}}, **answers.documented(410)},
)
async def one_map(
    key: Annotated[Key, Path()], head: Annotated[Literal["mean"] | int, Path()], service: Here
) -> Response:
    """One head's attention, or the mean of all, of a result of the measure `map`; packed as results are."""
    dataset = service.results.get(key)
    body = await asyncio.to_thread(lambda: wire.packed(one_head(dataset, head)))
    return Response(body, media_type=BINARY)


@router.get(
    "/api/netcdf/{keys}", response_class=Response, responses={200: {"content": {NETCDF: {}}}, **answers.documented(410)}
)
async def netcdf(keys: Annotated[Keys, Path()], service: Here) -> Response:
    """The same as a netCDF file."""
    try:
        body = await asyncio.to_thread(lambda: wire.netcdf(_merged(service, keys)))
    except ModuleNotFoundError as error:
        raise Unsupported("Writing netCDF needs the package netCDF4: pip install 'whence[netcdf]'.") from error
    return Response(body, media_type=NETCDF, headers=_attached("whence.nc"))


@router.post(
    "/api/page",
    response_class=HTMLResponse,
    responses={200: {"content": {"text/html": {}}}, **answers.documented(410)},
)
async def saved(page_request: PageRequest, service: Here) -> Response:
    """The page as one file that opens offline."""
    beside = {name: keys for name, keys in (("edited", page_request.edited), ("other", page_request.other)) if keys}

    def written() -> str:
        others = {name: _merged(service, keys) for name, keys in beside.items()}
        keys = page_request.why, page_request.edited_why
        reasons = [_explained(service.results.get(key)) if key else None for key in keys]
        return page_of(_merged(service, page_request.main), others, page_request.state, *reasons)

    return HTMLResponse(await asyncio.to_thread(written), headers=_attached("whence.html"))


def _explained(dataset: xarray.Dataset) -> xarray.Dataset:
    if is_read_out(dataset) or not is_explained(dataset):
        raise BadInput("This result is not why a prediction is made; ask for the measure 'why'.")
    return dataset


def _merged(service: Service, keys: str) -> Any:
    return service.results.merged(keys.split(","))


def _attached(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


# Jobs


async def _ended(job: Job, seconds: float) -> bool:
    """Whether the job ends within so many seconds; what it raised is raised."""
    done, _ = await asyncio.wait([_end_of(job)], timeout=seconds)
    if done:
        job.finished.result()
    return bool(done)


def _end_of(job: Job) -> asyncio.Future:
    """The end of a job that runs in another thread, to be waited for; nobody has to ask what it raised."""
    ended = asyncio.wrap_future(job.finished)
    ended.add_done_callback(lambda future: future.cancelled() or future.exception())
    return ended


def _news(service: Service, job: Job) -> ServerSentEvent:
    if job.running:
        return ServerSentEvent(event="progress", data={"done": job.done, "of": job.of})
    return ServerSentEvent(event="waiting", data={"ahead": service.jobs.ahead(job)})
