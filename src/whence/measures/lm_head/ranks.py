"""How similarly do two scorings order a vocabulary? Ranks with ties averaged, Spearman and Pearson, many at once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


def spearman(scores: Float[Tensor, "*b g v"]) -> Float[Tensor, "*b g g"]:
    """Spearman's coefficient between every two rows: Pearson's of their ranks."""
    return pearson(ranks(scores))


def pearson(rows: Float[Tensor, "*b g v"]) -> Float[Tensor, "*b g g"]:
    """Pearson's coefficient between every two rows; NaN for a row that is constant."""
    centred = _centred(rows)
    products = centred @ centred.mT
    lengths = products.diagonal(dim1=-2, dim2=-1).sqrt()
    return (products / (lengths[..., :, None] * lengths[..., None, :])).clamp(-1, 1)


def paired(first: Float[Tensor, "*b v"], second: Float[Tensor, "*b v"]) -> Float[Tensor, "*b"]:
    """Pearson's coefficient between each row and its partner; of ranks, Spearman's."""
    first, second = _centred(first), _centred(second)
    return ((first * second).sum(dim=-1) / (first.norm(dim=-1) * second.norm(dim=-1))).clamp(-1, 1)


def place(scores: Float[Tensor, "*b v"], token: Int[Tensor, "*b"]) -> Int[Tensor, "*b"]:
    """The token's place among all by score, from 1: the number of tokens that score higher, plus 1."""
    own = scores.gather(-1, token[..., None])
    return (scores > own).sum(dim=-1) + 1


def ranks(values: Float[Tensor, "*b v"]) -> Float[Tensor, "*b v"]:
    """Ranks from 1, the smallest first, ties sharing their mean rank; all NaN in a row that has a NaN."""
    rows = values.reshape(-1, values.shape[-1])
    on_host = rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.float16, torch.bfloat16)
    ranked = _ranks_by_keys(rows.float()) if on_host else ranks_by_sort(rows)
    ranked[rows.isnan().any(dim=-1)] = torch.nan
    return ranked.reshape(values.shape)


def ranks_by_sort(rows: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    """The same for any device and dtype: a run of equal values gets the mean of its first and last place."""
    ordered, order = rows.sort(dim=-1)
    fresh = torch.ones_like(ordered, dtype=torch.bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    count = rows.shape[-1]
    index = torch.arange(count, device=rows.device).expand_as(order)
    first = torch.where(fresh, index, 0).cummax(dim=-1).values
    ends = torch.where(fresh.roll(-1, dims=-1), index, count - 1)  # the first value is fresh, so the last one ends
    last = ends.flip(-1).cummin(dim=-1).values.flip(-1)
    places = ((first + last).to(_exact(rows)) / 2) + 1
    return torch.empty_like(places).scatter_(-1, order, places)


def _ranks_by_keys(rows: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    """On a CPU: each number and its place packed into one integer, and the integers sorted, rows in parallel.

    NumPy sorts integers with vector instructions; an argsort of floats takes three times as long.
    """
    ranked = np.empty(rows.shape, dtype=np.float32)
    numbers = rows.detach().numpy()
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # NumPy sorts without the interpreter lock
        list(pool.map(_rank_row, numbers, ranked))
    return torch.from_numpy(ranked)


def _rank_row(values: np.ndarray, out: np.ndarray) -> None:
    bits = (values + np.float32(0)).view(np.int32)  # adding zero makes -0.0 the 0.0 that it equals
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)  # integers in the order of the floats
    keys <<= 32
    keys |= np.arange(len(values))
    keys.sort()
    order, high = keys & 0xFFFFFFFF, keys >> 32
    starts = np.concatenate([[0], np.flatnonzero(high[1:] != high[:-1]) + 1])
    lengths = np.diff(starts, append=len(values))
    out[order] = np.repeat((starts + (lengths + 1) / 2).astype(np.float32), lengths)


def _centred(rows: Float[Tensor, "*b v"]) -> Float[Tensor, "*b v"]:
    """In float64, so that a coefficient is right to the last digit of float32. (Apple's GPU has none: on the CPU.)"""
    double = (rows.cpu() if rows.device.type == "mps" else rows).double()
    return double - double.mean(dim=-1, keepdim=True)


def _exact(rows: Tensor) -> torch.dtype:
    """A dtype that holds every half up to the number of tokens."""
    return torch.float64 if rows.dtype == torch.float64 else torch.float32
