"""What the words on a page mean: rows of docs/glossary.md that a reader can point at, and the steps of the LM head."""

TERMS = {
    "token": "what the tokenizer makes of a text; has a place in the sequence, counted from 0",
    "layer": "a block's output, counted from 1; layer 0 is the output of the embedding",
    "logit": "the score a model gives to a token of its vocabulary; softmax makes probabilities of the scores",
    "embeddings": "layer 0: the vectors with which the tokens enter the model, before any attention",
    "effective attention": "the part of the attention that can reach the head's output",
    "null attention": "the rest of the attention, which the values cancel: it cannot reach the output",
    "mixing": "share of a token's new vector that came from other tokens (Kobayashi et al. 2021)",
    "contribution": "share of an input token in a hidden token, by the norm of its derivative (Brunner et al. 2020)",
    "decomposition": "the vectors, one per input token, that a state is the sum of",
    "dependence": "length of the derivative of a log-probability by a token's state (`whence.why`)",
    "rollout": "maps of shares multiplied over layers (Abnar & Zuidema 2020); vectors that cancel still add up",
    "sink": "a decoder's first token, in rows of which it holds more than half of the attention",
    "constants": "what biases and shifts gave: it belongs to no token",
    "norms": "sizes of the vectors that tokens hand over, not the weights they are given (Kobayashi et al. 2020)",
    "residual": "the connection that hands a token's vector on to the next layer as it is",
    "layer norm": "the step that centres a vector, sets it to a fixed length and weighs its dimensions",
    "LM head": "what turns the last layer into logits; its steps are stages",
}

_NORM = {
    "n": "the vector centred and set to a fixed length by the layer norm",
    "w": "then multiplied, dimension by dimension, by the weight of the layer norm",
    "b": "then the bias of the layer norm is added",
}
STEPS = {
    "trf-out": "the last layer's vector, as it leaves the blocks",
    "dense-w": "that vector through the weight of the head's dense layer",
    "dense-b": "then the bias of the dense layer is added",
    "gelu": "then the activation of the head",
    "lmhead-out": "then the bias of each token of the vocabulary is added: the model's own scores",
    "unembed": "the scores against every token of the vocabulary: the model's own",
    "scale": "the scores multiplied by the model's constant",
    "softcap": "the scores held below the model's cap",
}
STEPS |= {f"{name}-{step}": said for name in ("lnorm", "norm") for step, said in _NORM.items()}


def terms() -> dict[str, str]:
    """All of them, the longest first, so that none is taken for a part of another."""
    return dict(sorted((TERMS | STEPS).items(), key=lambda row: -len(row[0])))
