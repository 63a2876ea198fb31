"""Tiny tokenizers of the kinds there are, trained on the spot."""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram, WordPiece
from tokenizers.trainers import BpeTrainer, UnigramTrainer, WordPieceTrainer
from transformers import PreTrainedTokenizerFast

SIZE = 3000
SPECIAL = {
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
}


def word_piece(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """BERT's: lower case, no accents, punctuation apart, ## in front of what goes on."""
    made = Tokenizer(WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return _trained(
        made, WordPieceTrainer(vocab_size=SIZE, special_tokens=list(SPECIAL.values()), show_progress=False), texts
    )


def byte_pair(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """The first kind: pairs of letters merged inside what white space leaves, </w> at a word's end."""
    made = Tokenizer(BPE(unk_token="[UNK]", end_of_word_suffix="</w>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = BpeTrainer(
        vocab_size=SIZE, special_tokens=list(SPECIAL.values()), end_of_word_suffix="</w>", show_progress=False
    )
    return _trained(made, trainer, texts)


def unigram(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """SentencePiece's: compatibility forms, ▁ for a space, no cut between words, so that a piece may hold two."""
    made = Tokenizer(Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    made.decoder = decoders.Metaspace(split=False)
    trainer = UnigramTrainer(
        vocab_size=SIZE, special_tokens=list(SPECIAL.values()), unk_token="[UNK]", show_progress=False
    )
    return _trained(made, trainer, texts)


def byte_level(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """GPT-2's: pairs of bytes, the space in front belonging to the word; a piece may be part of a letter."""
    made = Tokenizer(BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = BpeTrainer(
        vocab_size=SIZE,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return _trained(made, trainer, texts)


KINDS = {"WordPiece": word_piece, "BPE": byte_pair, "Unigram": unigram, "byte-level BPE": byte_level}


def _trained(made: Tokenizer, trainer, texts: Iterable[str]) -> PreTrainedTokenizerFast:
    made.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL)
