"""A corpus, from sentences to a test: python examples/corpus.py [FOLDER]"""

import sys
from pathlib import Path

import whence
from whence.stats import contrasts, means
from whence.text.sentence import Sentence

# two short stories stand for a corpus; whence.read("file.conllu") gives one with annotations
STORIES = [
    "The keys to the cabinet are on the table. Nobody has seen them since Monday, and nobody asks. They will turn up.",
    "A river runs through the old town. Its bridges are narrow. In spring it floods the market, and people laugh.",
    "She wrote three letters. The first one never arrived, the second came late, and the third was not for him.",
]
sentences = [
    Sentence(text.strip() + ".", document=f"story {number}")
    for number, story in enumerate(STORIES)
    for text in story.rstrip(".").split(".")
]

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "corpus_run").with_suffix("")
whence.run(whence.load(), sentences, ["mixing", "attention"], folder)  # stopped? the same line goes on
run = whence.open_run(folder)
print(run, "\n")

# how much of a token came from others, by layer; documents are drawn again for the interval
tokens = run.tokens[~run.tokens.is_special]
print(means(tokens, "mixing_attnresln_n", cluster="document").round(3).to_string(index=False), "\n")

# do full stops take in more than other tokens?
tokens = tokens[tokens["class"].isin([".", "other"])]
found = contrasts(tokens, "mixing_attnresln_n", "class", permutations=999)
print(
    found[["layer", "first", "second", "difference", "low", "high", "g", "p_corrected"]].round(3).to_string(index=False)
)

# what each head gives to [SEP], from the moments: no token row is needed
moments = run.moments
given = moments[(moments["variable"] == "attention_to") & (moments["by"] == "all") & (moments["source"] == "[SEP]")]
print("\nMost of a head's attention to [SEP]")
print(given.dropna(subset="head").nlargest(3, "mean")[["layer", "head", "mean", "std"]].round(2).to_string(index=False))
