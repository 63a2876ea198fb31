"""Tables in memory give the sentences that their file gives, and are refused in one sentence where they cannot."""

import datasets
import pandas
import polars
import pyarrow
import pytest

import whence
from whence.errors import BadInput

COLUMNS = {"review": ["A fine film.", "Dull.", "Naïve — but kind"], "stars": [5, 1, 3], "film": ["a", "b", "a"]}
NAMED = {"text": "review", "label": "stars", "document": "film"}
KINDS = {
    "pandas": pandas.DataFrame(COLUMNS),
    "polars": polars.DataFrame(COLUMNS),
    "arrow": pyarrow.table(COLUMNS),
    "dataset": datasets.Dataset.from_dict(COLUMNS),
    "streamed": datasets.Dataset.from_dict(COLUMNS).to_iterable_dataset(),
    "rows": [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
}


def contents(corpus):
    return [(sentence.text, sentence.labels, sentence.document) for sentence in corpus]


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_gives_what_its_file_gives(kind, tmp_path):
    KINDS["polars"].write_csv(tmp_path / "reviews.csv")
    corpus = whence.read(KINDS[kind], **NAMED)
    expected = contents(whence.read(tmp_path / "reviews.csv", **NAMED))
    assert contents(corpus) == expected == contents(corpus)  # as often as one likes
    assert len(expected) == 3


def test_a_run_of_a_frame_is_that_of_its_texts(builtin, tmp_path):
    whence.run(builtin, whence.read(KINDS["pandas"], **NAMED), ["mixing"], out=tmp_path / "frame")
    whence.run(builtin, COLUMNS["review"], ["mixing"], out=tmp_path / "texts")
    frame, texts = (whence.open_run(tmp_path / name) for name in ("frame", "texts"))
    numbers = [column for column in texts.tokens if column.startswith("mixing")]
    assert numbers
    pandas.testing.assert_frame_equal(frame.tokens[numbers], texts.tokens[numbers])
    assert frame.sentences.document.tolist() == COLUMNS["film"]


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        (KINDS["pandas"], {}, r"no column 'text' or 'sentence'; the columns are 'review', 'stars', 'film'; say which"),
        (KINDS["pandas"], {"text": "stars"}, "the column 'stars' holds 5, and a text was expected"),
        (KINDS["pandas"], {"header": False}, "The format table has no option 'header'; its options are text, pair"),
        (["A text."], {}, "A row of the table is a str, and columns by name were expected"),
        (pandas.DataFrame({"text": ["A.", None]}), {}, "holds None, and a text was expected"),
        (3, {}, "A corpus is read from a file's name or a table, and int was given"),
        ({"text": ["A."]}, {}, "and dict was given"),
    ],
)
def test_what_cannot_be_read_is_said(table, options, said):
    with pytest.raises(BadInput, match=said):
        list(whence.read(table, **options))


def test_bad_rows_are_counted_and_a_limit_holds():
    corpus = whence.read(pandas.DataFrame({"text": ["A.", None, "B.", "C."]}), skip_bad=True, limit=2)
    assert [sentence.text for sentence in corpus] == ["A.", "B."]
    assert corpus.skipped.count == 1


def test_a_corpus_is_not_read_twice():
    with pytest.raises(BadInput, match="it is a corpus as it is"):
        whence.read(whence.read(KINDS["rows"], text="review"))
