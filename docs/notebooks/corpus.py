# %% [markdown]
# # A corpus with annotation
#
# One sentence is an anecdote. Here a small treebank is measured into tables, and a question is asked of them: do function words take in more from
# their context than content words? With `whence.read("file.conllu")` the treebank would come from a file.

# %%
import whence
from whence.text.sentence import Sentence, Word

LINES = [
    "The/DET keys/NOUN to/ADP the/DET cabinet/NOUN are/AUX on/ADP the/DET table/NOUN ./PUNCT",
    "Nobody/PRON has/AUX seen/VERB them/PRON since/ADP Monday/PROPN ./PUNCT",
    "A/DET river/NOUN runs/VERB through/ADP the/DET old/ADJ town/NOUN ./PUNCT",
    "In/ADP spring/NOUN it/PRON floods/VERB the/DET market/NOUN ./PUNCT",
    "She/PRON wrote/VERB three/NUM letters/NOUN to/ADP her/PRON brother/NOUN ./PUNCT",
    "The/DET first/ADJ one/NOUN never/ADV arrived/VERB ./PUNCT",
    "Merchants/NOUN brought/VERB salt/NOUN and/CCONJ amber/NOUN from/ADP the/DET north/NOUN ./PUNCT",
    "The/DET soup/NOUN was/AUX cold/ADJ ,/PUNCT so/CCONJ he/PRON did/AUX not/PART eat/VERB it/PRON ./PUNCT",
]


def annotated(line, document):
    """A sentence from words with their parts of speech."""
    words, text = [], ""
    for piece in line.split():
        form, upos = piece.rsplit("/", 1)
        text += "" if not text or upos == "PUNCT" else " "
        words.append(Word(len(text), len(text) + len(form), {"upos": upos}))
        text += form
    return Sentence(text, document=document, words=tuple(words))


treebank = [annotated(line, f"story {number // 2}") for number, line in enumerate(LINES)]
treebank[0].text

# %% [markdown]
# A run measures every sentence into Parquet tables. It can be stopped at any time: the same call resumes. `whence.open_run` compares every
# checksum before it gives a number.

# %%
model = whence.load()
whence.run(model, treebank, ["mixing", "attention"], out="run")
run = whence.open_run("run")
run

# %% [markdown]
# The tables are data frames. `tokens` has a row for every token and layer, with the annotation of its word:

# %%
columns = ["token", "upos", "layer", "mixing_attnresln_n", "attention_own"]
run.tokens[columns].head(6).round(3)

# %% [markdown]
# ## The question
#
# Words of one document are not independent, so intervals are drawn by document (`cluster`).

# %%
tokens = run.tokens[run.tokens.upos.notna() & (run.tokens.upos != "PUNCT")].copy()
content = tokens.upos.isin(["NOUN", "PROPN", "VERB", "ADJ", "ADV", "NUM"])
tokens["kind"] = content.map({True: "content", False: "function"})
found = whence.stats.means(tokens[tokens.layer == 6], "mixing_attnresln_n", by="kind", cluster="document")
found[["kind", "n", "mean", "low", "high"]].round(3)

# %% [markdown]
# The difference in every layer, with its interval, and a *p* value from permutations that is corrected for the number of layers:

# %%
contrast = whence.stats.contrasts(tokens, "mixing_attnresln_n", "kind", cluster="document", permutations=199)
contrast[["layer", "difference", "low", "high", "p_permutation_corrected"]].round(3)

# %% [markdown]
# Every difference has the same sign, and *p* is large all the same: with four documents no permutation is rarer than one in eight, and there are
# six layers. With `whence.read("en_gum-ud-dev.conllu")` in place of `treebank`, the same cells answer the question.
#
# ## Heads
#
# Moments are kept for every head and group of tokens, so that no table of single tokens is needed. Which heads give most of their attention to
# `[SEP]`?

# %%
moments = run.moments
given = moments[(moments.variable == "attention_to") & (moments.by == "all") & (moments.source == "[SEP]")]
given.dropna(subset="head").nlargest(3, "mean")[["layer", "head", "mean", "std"]].round(2)

# %% [markdown]
# ## Give it to others
#
# `whence.publish` writes a data card beside the tables. With it, the folder is a data set that `datasets` and the Hub read.

# %%
card = whence.publish("run", "Mixing ratios of a small treebank", license="cc-by-4.0")
print(card)
