"""Parts in this process: while the model measures one, the next is prepared and the one before is written."""

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.corpus.engines import Cluster
    from whence.corpus.parts import Part
    from whence.corpus.worker import Prepared, Worker


def work(
    worker: "Worker", parts: Iterator["Part"], cluster: "Cluster | None" = None
) -> Generator[dict[str, Any], None, None]:
    """The record of each part, as soon as it is written; after an early end, measured parts are still written."""
    writing: deque[Future[dict[str, Any]]] = deque()
    with ThreadPoolExecutor(2, thread_name_prefix="whence") as beside:
        for prepared in _ahead(beside, worker, parts):
            writing.append(beside.submit(worker.write, worker.measure(prepared)))
            while len(writing) > 1 or (writing and writing[0].done()):
                yield writing.popleft().result()
        for record in writing:
            yield record.result()


def _ahead(beside: ThreadPoolExecutor, worker: "Worker", parts: Iterator["Part"]) -> Iterator["Prepared"]:
    """Every part, prepared one ahead."""
    coming: Future[Prepared] | None = None
    for part in parts:
        ready, coming = coming, beside.submit(worker.prepare, part)
        if ready is not None:
            yield ready.result()
    if coming is not None:
        yield coming.result()
