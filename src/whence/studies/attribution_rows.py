"""What the sections of the study of attribution share: its runs, their tokens and their maps."""

from collections.abc import Iterator

import pandas
import torch
import xarray

from whence.corpus.open_run import Run
from whence.measures.options import Contribution
from whence.studies.frame.context import Context, by_document

PAPER = "Brunner et al. 2020"
ERROR = 0.05  # standard error of a sketched norm; over thousands of tokens it averages out
# sentences in the paper, by format; other corpora get as many as MRPC
SAMPLE = {"mrpc": 408, "cola": 1043, "mnli": 4000}
ITSELF = "contribution of the token itself"


def run_of(context: Context, place: int = 0) -> Run:
    corpus = context.corpora[place]
    sentences = context.texts(5, SAMPLE.get(corpus.format, SAMPLE["mrpc"]), corpus=corpus)
    return context.run(f"contribution-{place}", [Contribution(error=ERROR)], sentences, maps=True)


def token_rows(context: Context, place: int = 0) -> pandas.DataFrame:
    tokens = by_document(run_of(context, place).tokens)
    return tokens.assign(not_largest=1 - tokens["contribution_own_largest"].astype(float))


def maps_of(run: Run) -> Iterator[tuple[str, xarray.Dataset, torch.Tensor]]:
    """The document, the Dataset and the contributions of each sentence."""
    documents = by_document(run.sentences).set_index("sentence")["document"]
    for sentence, dataset in run.maps.items():
        yield documents[sentence], dataset, torch.tensor(dataset["contribution"].values)
