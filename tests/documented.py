"""What stands in for the models and files that README and docs name, and the commands of theirs that are not run."""

import copy
import gzip
import json
from pathlib import Path

import datasets
import numpy as np
import pandas
import torch
import transformers
from PIL import Image
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    CLIPProcessor,
    LlavaProcessor,
    ViTForImageClassification,
    masking_utils,
)
from transformers.models.llama import modeling_llama as llama
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import whence
from tests import mixed, stacks, tiny, towers
from tests.families import build, scatter

SAMPLES = Path(__file__).parent / "samples"
SMALL = ("--sample", "12")  # how much of a corpus a study reads here
# the beginning of a command -> why it is not run; what it says after `whence` is parsed all the same
NOT_RUN = {
    "pip install": "needs an index of packages",
    ".venv/bin/pip install": "the same",
    "make": "installs into the environment, or runs what this test is part of",
    ".venv/bin/python -m benchmarks": "takes minutes; tests/test_benchmarks.py imports every one of them",
    "whence serve": "does not end by itself; tests/web starts it",
}

SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct"
# the model that a page names -> the one in its place: a fixture of real weights, or one of `Models`
MODELS = {
    SMOLLM2: "smollm2_folder",
    "all-MiniLM-L6-v2": "minilm_folder",
    "EMBEDDING_MODEL": "minilm_folder",
    "MODEL": "decoder",
    "DECODER": "decoder",
    "CLASSIFIER": "classifier",
    "RERANKER": "reranker",
    "TAGGER": "tagger",
    "CLIP_MODEL": "clip",
    "VISION_LANGUAGE_MODEL": "llava",
    "google/vit-base-patch16-224": "vit",
    "Helsinki-NLP/opus-mt-en-de": "translator",
    "some-organisation/some-model": "encoder",
    "path/to/a/folder": "encoder",
    "path/to/model": "encoder",
    "org/model@step1000": "encoder",
    "seeds/seed-*": "encoder",
    "DEEP_DECODER": "deep",
}

# the file that a page names -> the sample (tests/samples) in its place; then those of single pages
FILES = {
    **dict.fromkeys(("texts.txt", "text.txt", "wikipedia.txt"), "articles.txt"),
    "mill.conllu": "treebank.conllu",
    "dev.tsv": "pairs.tsv",
    "squad.jsonl": "questions.jsonl",
    "facts.jsonl": "questions.jsonl",
    "conceptnet.jsonl": "statements.jsonl",
    "trex_P19.jsonl": "facts_P19.jsonl",
    "relations.jsonl": "relations.jsonl",
}
# pages on which a tiny model stands in for the built-in one, because what they run takes long
TINY = ("docs/studies/", "docs/hour.md", "docs/measures/identity.md")
FILES_OF = {"docs/studies/mixing.md": {"dev.tsv": "sentiment.tsv"}}

CHAT = [{"role": "user", "content": "Why is the sky blue?"}]
TEXT = "The keys to the cabinet [MASK] on the table."
REVIEWS = [("It never ends.", "1", "first"), ("A warm film.", "5", "second"), ("Too long by half.", "2", "second")]
# files that are no samples, or too few sentences for ten folds
WRITTEN = {
    "en_gum-ud-dev.conllu": 3 * (SAMPLES / "treebank.conllu").read_text(),
    "in_domain_dev.tsv": 3 * (SAMPLES / "acceptable.tsv").read_text(),
    "dev.jsonl": 3 * (SAMPLES / "entailment.jsonl").read_text(),
    "corpus.txt": "The dog sleeps.\nHe saw it, and it saw him.\n",
    "shards/a.txt.gz": gzip.compress(b"One two.\nThree four.\n"),
    "messages.json": json.dumps(CHAT),
    "asked.jsonl": '{"prompt": "France has the capital", "answer": " Paris"}\n{"prompt": "Water is"}\n',
    "reviews.csv": "review,stars,film\n" + "\n".join(map(",".join, REVIEWS)),
    "blimp.tsv": "sentence_good\tfield\nThe dog sleeps.\tsyntax\nDogs sleep here.\tsyntax\n",
    "pairs.tsv": "1\tIt rains.\tWater falls.\n2\tHe ran.\tHe moved.\n",
    "x.jsonl": '{"text": "One."}\n{"text": 7}\n{"text": "Three."}\n',
    "europarl.tsv": "The keys are here.\tDie Schlüssel sind hier.\nIt rains.\tEs regnet.\n",
    "rank_count_id.txt": "1 900 1996\n2 800 1012\n",
    "user/dataset/validation.csv": "body,article_id\n" + "".join(f"He saw {word}.,{word}\n" for word in tiny.WORDS),
    "user/dataset/test.csv": "body,article_id\nOne two.,a\n",
}


def picture(path: Path) -> None:
    Image.fromarray(np.random.RandomState(0).randint(0, 256, (40, 50, 3)).astype("uint8")).save(path)


class Models:
    """Every model that stands in for another, as a folder, written when it is first asked for."""

    def __init__(self, folder: Path, words):
        self.folder, self.words = folder, words  # the tokenizer of the built-in model, which knows English

    def written(self, name: str) -> Path:
        folder = self.folder / name
        if not folder.exists():
            for part in getattr(self, name)():
                part.save_pretrained(folder)
        return folder

    def encoder(self):
        return build("bert", vocab_size=len(self.words), num_hidden_layers=6, pad_token_id=0), self.words

    def decoder(self):
        return build("gpt2", vocab_size=len(self.words), n_positions=256, **self._ends()), self._speaking()

    def deep(self):
        """As many layers as the page talks of."""
        return build("llama", vocab_size=len(self.words), num_hidden_layers=12, **self._ends()), self._speaking()

    def classifier(self):
        return self._reads(AutoModelForSequenceClassification, id2label={0: "NEGATIVE", 1: "POSITIVE"}), self.words

    def reranker(self):
        return self._reads(AutoModelForSequenceClassification, num_labels=1), self.words

    def tagger(self):
        return self._reads(AutoModelForTokenClassification, num_labels=3), self.words

    def translator(self):
        sizes = {"vocab_size": len(self.words), "encoder_layers": 6, "decoder_layers": 6}
        return stacks.build("bart", **sizes), self.words

    def vit(self):
        return towers.built("vit", ViTForImageClassification), ViTImageProcessorPil(size=towers.SIDE)

    def clip(self):
        return towers.pair("clip"), CLIPProcessor(ViTImageProcessorPil(size=towers.SIDE), tiny.tokenizer())

    def llava(self):
        tokenizer = tiny.tokenizer()
        tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
        sizes = {"patch_size": 6, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
        images = ViTImageProcessorPil(size=towers.SIDE)
        return mixed.build("llava"), LlavaProcessor(images, tokenizer, image_token="<image>", **sizes)

    def _reads(self, kind, **more):
        settings = towers.SMALL | {"vocab_size": len(self.words), "pad_token_id": 0}
        return scatter(kind.from_config(AutoConfig.for_model("bert", **settings, **more))).eval()

    def _ends(self):
        return {"bos_token_id": self.words.cls_token_id, "eos_token_id": self.words.sep_token_id}

    def _speaking(self):
        words = copy.deepcopy(self.words)
        words.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
        return words


# names that Python on pages takes for granted -> what they are
NAMES = {
    "whence": lambda models: whence,
    "model": lambda models: whence.load(),
    "decoder": lambda models: whence.load(models.written("decoder")),
    "classifier": lambda models: whence.load(models.written("classifier")),
    "reranker": lambda models: whence.load(models.written("reranker")),
    "tagger": lambda models: whence.load(models.written("tagger")),
    "embedder": lambda models: whence.load("all-MiniLM-L6-v2"),
    "my_model": lambda models: whence.load().model,
    "my_tokenizer": lambda models: whence.load().tokenizer,
    "text": lambda models: TEXT,
    "book": lambda models: TEXT * 6,
    "chapter": lambda models: TEXT * 6,
    "prompt": lambda models: "The capital of France is",
    "answer": lambda models: " Paris.",
    "chat": lambda models: CHAT,
    "corpus": lambda models: whence.read(SAMPLES / "articles.txt"),
}
IDS = torch.tensor([[101, 2003, 102]])
# what they are on single pages
NAMES_OF = {
    "docs/sink.md": {"model": NAMES["decoder"]},
    "docs/measures/lens.md": {"model": NAMES["decoder"]},
    "docs/measures/effective.md": {"text": NAMES["book"]},
    "docs/corpora.md": {
        "frame": lambda models: pandas.DataFrame(REVIEWS, columns=["review", "stars", "film"]),
        "datasets": lambda models: datasets,
        "values": lambda models: np.eye(7),
        "contribution": lambda models: np.eye(7),
        "pieces": lambda models: [[1], [1, 2, 3], [4], [5]],
    },
    # of transformers and torch, as the page speaks of what goes wrong there
    "docs/gotchas.md": {
        "AutoModel": lambda models: transformers.AutoModel,
        "BertModel": lambda models: transformers.BertModel,
        "AttentionInterface": lambda models: transformers.AttentionInterface,
        "AttentionMaskInterface": lambda models: transformers.AttentionMaskInterface,
        "my_attention": lambda models: llama.eager_attention_forward,
        "eager_mask": lambda models: masking_utils.eager_mask,
        "keep_output": lambda models: lambda module, inputs, output: None,
        "name": lambda models: str(models.written("deep")),
        "tokenizer": lambda models: transformers.AutoTokenizer.from_pretrained(models.written("deep")),
        "gpt2": lambda models: transformers.AutoModel.from_pretrained(models.written("decoder")),
        "config": lambda models: transformers.BertConfig(**towers.SMALL),
        "dataset": lambda models: whence.measure(whence.load(), TEXT, ["norms"]),
        "attention": lambda models: torch.ones(1, 3, 3),
        "ids": lambda models: IDS,
        "left_padded": lambda models: IDS,
        "mask": lambda models: torch.ones_like(IDS),
    },
}
