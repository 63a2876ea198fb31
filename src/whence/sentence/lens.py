"""What a hidden token is disposed to say: the Jacobian lens of a model, read beside the logit lens and a tuned one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray
from jaxtyping import Float
from torch import Tensor

from whence import _arguments
from whence._arguments import whole
from whence.errors import BadInput
from whence.measures.lens.readout import Readout, final, readout
from whence.measures.lens.tuned import Tuned
from whence.measures.lm_head.stages import stages_of, states_at
from whence.models.encode import encode
from whence.models.fingerprint import provenance, weights_sha256
from whence.models.load import Model, loaded
from whence.models.precision import reported, single
from whence.models.vocabulary import pieces
from whence.sentence.label import tokens_of
from whence.sentence.question import token_number
from whence.text.sentence import sentence

JACOBIAN, LOGIT, TUNED = "jacobian", "logit", "tuned"
KINDS = (JACOBIAN, LOGIT, TUNED)
_NAMES = {"token": "token_text", "token_id": "token_id"}


@dataclass(frozen=True, eq=False)
class Lens:
    """One matrix per layer, J_l, that takes a state to what it does to the last layer's states on average.

    `groups` are its means over groups of texts, `texts` how many are in each: from how they differ comes the standard
    error of all that is read. `about` says of which model and corpus it is.
    """

    layers: tuple[int, ...]
    groups: Float[Tensor, "group layer m m"]
    texts: tuple[int, ...]
    tuned: Tuned | None
    about: Mapping[str, Any]
    error: tuple[float, ...] = ()
    "By layer: the standard error of a read-out vector in terms of its length, over the states of the texts."
    _known: set[tuple[int, int]] = field(default_factory=set, repr=False)

    def __repr__(self) -> str:
        return (
            f"Lens({self.about['model']['id']!r}, layers={self.layers[0]} to {self.layers[-1]}, width={self.width},"
            f" texts={sum(self.texts)})"
        )

    @property
    def width(self) -> int:
        return self.groups.shape[-1]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The lenses there are to read: jacobian and logit, and tuned where one was fitted."""
        return KINDS if self.tuned is not None else KINDS[:2]

    @property
    def matrices(self) -> xarray.DataArray:
        """J_l, (layer, output, input): a state is read as J_l h."""
        return self._labelled(self.mean, "J_l, from a state to its mean effect on the last layer's states")

    @property
    def standard_errors(self) -> xarray.DataArray:
        """Of each number of J_l, over the groups of texts; NaN where there is but one."""
        return self._labelled(self._deviations(slice(None)).square().sum(dim=0).sqrt(), "standard error of J_l")

    def directions(self, model: Model, token: int | str) -> xarray.DataArray:
        """(layer, width): the direction of each layer's states that raises a token's lens logit, J_l^T (g * W_U).

        g is the weight of the final norm. The norm's own scale, which differs from state to state, is left out; where
        the norm takes out the mean, so does the direction.
        """
        self.check(model)
        number = token_number(model, token)
        stages_of(model.anatomy)
        head, norm = model.anatomy.head, model.anatomy.final_norm
        assert head is not None
        if head.dense is not None or model.anatomy.narrowing is not None:
            raise BadInput(
                f"The head of {type(model.model).__name__} is more than a norm and an unembedding, so that no direction"
                " of a layer stands for a token; read the lens instead."
            )
        covector = single(head.decoder).weight[:, number]
        if norm is not None:
            covector = covector * single(norm).weight
            covector = covector - covector.mean() if norm.centred else covector
        values = self.mean.to(covector).mT @ covector
        return xarray.DataArray(
            values.cpu().numpy(),
            {"layer": list(self.layers)},
            ("layer", "width"),
            "direction",
            {"token": pieces(model.tokenizer, [number])[0], "token_id": number},
        )

    def read(
        self,
        model: Model,
        text: object,
        k: int = 5,
        *,
        lenses: str | Iterable[str] | None = None,
        layers: int | Iterable[int] | None = None,
        truncate: bool = False,
    ) -> xarray.Dataset:
        """What every state of a text is disposed to say.

        Args:
            model: the model that the lens was fitted to
            text: a text, a pair, a chat, or token ids
            k: how many of the best tokens are named
            lenses: "jacobian", "logit" (the state as it is), "tuned" (the ridge regression on the same texts); all
                that there are by default
            layers: only these, 0 is the output of the embeddings
            truncate: cut a text that is longer than the model takes

        Returns:
            A Dataset: candidate_token, probability (lens, layer, token, candidate), the best tokens, and
            probability_se, the standard error of the Jacobian lens over groups of texts, to first order;
            answer_probability and place (lens, layer, token) of the model's own answer there, answer_token (token);
            divergence (lens, layer, token) of the prediction from the model's own, in nats; agreement (lens, layer),
            the share of tokens whose best token is the model's own answer.

        Examples:
            >>> lens = whence.lens(whence.load(), ["Paris is the capital of France.", "A cat sat."], layers=[3, 6])
            >>> lens.read(whence.load(), "Paris is the capital of [MASK].").place.dims
            ('lens', 'layer', 'token')
        """
        self.check(model)
        stages_of(model.anatomy)  # refuses a model without a head
        k, kinds = whole("k", k, 1), self._kinds(lenses)
        chosen = list(self.layers) if layers is None else self._layers(layers)
        encoded = encode(model.anatomy, model.tokenizer, sentence(text), truncate)
        tokens = range(len(encoded.tokens))
        with torch.no_grad(), torch.autocast(model.model.device.type, enabled=False):
            wanted = [*chosen, model.anatomy.layers]
            states = single(states_at(model.anatomy, encoded.batch, [0] * len(tokens), tokens, wanted))
            expected = final(model.anatomy, states[-1])
            readouts = [
                [self._read(model, kind, layer, own, expected, k) for layer, own in zip(chosen, states, strict=False)]
                for kind in kinds
            ]
        dataset = _labelled(model, readouts, expected)
        coordinates = {
            "lens": list(kinds),
            "layer": chosen,
            "token": list(tokens),
            **{_NAMES.get(name, f"token_{name}"): ("token", values) for name, values in tokens_of(encoded).items()},
            "candidate": np.arange(1, dataset.sizes["candidate"] + 1),
        }
        texts = {"text": encoded.sentence.text, "pair": encoded.sentence.pair or ""}
        attributes = provenance(model, ["lens"], {"k": k, "lens": self._told}) | texts
        return dataset.assign_coords(coordinates).assign_attrs(attributes)

    def trace(
        self,
        model: Model,
        text: object,
        token: int,
        k: int = 5,
        *,
        truncate: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> xarray.Dataset:
        """One hidden token from both sides, at every layer of the lens: whence it came, and whither it goes.

        Args:
            model: the model that the lens was fitted to
            text: a text, a pair, a chat, or token ids
            token: its position in the text, from the end when negative
            k: how many of the best tokens are named
            truncate: cut a text that is longer than the model takes
            progress: progress(done, total) of the contributions

        Returns:
            A Dataset: what `read` says of this token (lens, layer, candidate); contribution and decomposition_share
            (layer, source), what each input token has to do with it, from layer 1; share (predicted, layer), the
            signed part of each later prediction's logit that this token's state gave, and share_of_all, that part of
            the sizes of all parts. Where the model gives no secant, decomposition and shares are missing.

        Examples:
            >>> lens = whence.lens(whence.load(), ["Paris is the capital of France.", "A cat sat."], layers=[3, 6])
            >>> lens.trace(whence.load(), "Paris is [MASK].", 1).share.dims
            ('predicted', 'layer')
        """
        from whence.sentence.lens_trace import trace

        return trace(self, model, text, token, k, truncate, progress)

    def check(self, model: Model) -> None:
        """Refuses a model that the lens was not fitted to."""
        about, anatomy = self.about["model"], loaded(model).anatomy
        if self.width != anatomy.width or max(self.layers) > anatomy.layers:
            raise BadInput(
                f"The lens is of {about['id']}, {self.width} wide with layers up to {max(self.layers)}, and {model.id}"
                f" is {anatomy.width} wide and has {anatomy.layers}; load the lens of this model, or fit one"
                " (whence.lens)."
            )
        expected = about.get("weights_sha256")
        state = id(model.model), sum(weight._version for weight in model.model.parameters())
        if expected is None or state in self._known:
            return
        if weights_sha256(model) != expected:
            raise BadInput(
                f"The lens was fitted to other weights ({about['id']}) than those of {model.id}; load that model,"
                " or fit a lens to this one (whence.lens)."
            )
        self._known.add(state)

    def save(self, path: str | Path, errors: bool = True) -> Path:
        """Writes the lens to a .safetensors file; without `errors` one matrix per layer, and no standard errors."""
        from whence.sentence.lens_file import save

        return save(self, path, errors)

    @property
    def mean(self) -> Float[Tensor, "layer m m"]:
        return torch.einsum("g,glij->lij", self._weights, self.groups)

    @property
    def _weights(self) -> Float[Tensor, " group"]:
        return self.groups.new_tensor(self.texts) / sum(self.texts)

    def _deviations(self, layers: int | slice) -> Tensor:
        """How each group deviates from the mean of all; the root of the sum of squares is its standard error."""
        count = len(self.groups)
        weighed = (self._weights / (count - 1)).sqrt() if count > 1 else self._weights * torch.nan
        groups = self.groups[:, layers]
        mean = torch.tensordot(self._weights, groups, dims=1)
        return (groups - mean) * weighed.reshape(-1, *[1] * (groups.ndim - 1))

    @property
    def _told(self) -> dict[str, Any]:
        """What a read-out says of the lens that it is from."""
        names = ("corpus", "skip", "length")
        return {name: self.about[name] for name in names if name in self.about} | {"texts": sum(self.texts)}

    def _labelled(self, values: Tensor, about: str) -> xarray.DataArray:
        return xarray.DataArray(
            values.cpu().numpy(),
            {"layer": list(self.layers)},
            ("layer", "output", "input"),
            "lens",
            {"long_name": about},
        )

    def _kinds(self, lenses: str | Iterable[str] | None) -> tuple[str, ...]:
        kinds = self.kinds if lenses is None else (lenses,) if isinstance(lenses, str) else tuple(lenses)
        if not kinds or (wrong := [kind for kind in kinds if kind not in self.kinds]):
            raise BadInput(f"There is no lens {(wrong or [''])[0]!r:.40} here; there are: {', '.join(self.kinds)}.")
        return kinds

    def _layers(self, layers: int | Iterable[int]) -> list[int]:
        chosen = _arguments.numbers("layer", layers)
        wrong = [layer for layer in chosen if layer not in self.layers]
        if wrong or not chosen:
            known = ", ".join(map(str, self.layers))
            raise BadInput(f"The lens has the layers {known}, and {wrong[0] if wrong else 'none'} was asked for.")
        return chosen

    def _read(
        self, model: Model, kind: str, layer: int, states: Float[Tensor, "t m"], expected: Float[Tensor, "t v"], k: int
    ) -> Readout:
        place, moved = self.layers.index(layer), None
        if kind == JACOBIAN:
            mean = torch.tensordot(self._weights, self.groups[:, place], dims=1).to(states)
            if len(self.groups) > 1:
                moved = states @ self._deviations(place).to(states).mT
            states = states @ mean.T
        if kind == TUNED:
            assert self.tuned is not None
            states = states @ self.tuned.matrices[place].to(states).T + self.tuned.shifts[place].to(states)
        return readout(model.anatomy, states, expected, k, moved)


def _labelled(model: Model, readouts: list[list[Readout]], expected: Float[Tensor, "t v"]) -> xarray.Dataset:
    def stacked(name: str) -> np.ndarray:
        values = torch.stack([torch.stack([getattr(readout, name) for readout in row]) for row in readouts])
        return values.to(reported(values.dtype) if values.is_floating_point() else values.dtype).cpu().numpy()

    answers = expected.argmax(dim=-1).cpu().numpy()
    best = stacked("best")
    numbers = np.unique(np.concatenate([best.ravel(), answers]))
    words = dict(zip(numbers.tolist(), pieces(model.tokenizer, numbers.tolist()), strict=True))
    named = np.vectorize(words.__getitem__, otypes=[object])
    states, candidates = ("lens", "layer", "token"), ("lens", "layer", "token", "candidate")
    probability = np.exp(stacked("logs"))
    return xarray.Dataset(
        {
            "candidate_token": (candidates, named(best)),
            "candidate_token_id": (candidates, best),
            "probability": (candidates, probability),
            "probability_se": (candidates, probability * stacked("errors")),
            "answer_probability": (states, np.exp(stacked("answer"))),
            "place": (states, stacked("place")),
            "divergence": (states, stacked("divergence")),
            "agreement": (states[:2], (best[..., 0] == answers).mean(axis=-1)),
            "answer_token": (("token",), named(answers)),
            "answer_token_id": (("token",), answers),
            "final_probability": (("token",), expected.max(dim=-1).values.exp().cpu().numpy()),
        }
    )
