"""What can be measured: a table, one row per measure."""

from whence.measures import options, takes
from whence.measures.flow import takes as flow_takes
from whence.measures.flow.summaries import NEIGHBOURS
from whence.measures.registry import (
    ATTENTION,
    BY_HEAD,
    BY_LAYER,
    BY_TOKEN,
    DERIVATIVES,
    HEADS,
    MAP,
    NEURONS,
    NORMS,
    ROWS,
    SECANT,
    VALUES,
    Axis,
    Measure,
    Variable,
)

_NORM = "length"
_SHARE = "share"
_ERROR = "its standard error by normal theory: ± Student's t of probes - 1 holds about 95 % of cells; zero when exact"


def _analysis(name: str, unit: str, about: str, needs: frozenset[str]) -> Variable:
    return Variable(MAP, unit, about, needs, analysis=("norms", name), reads="rows")


# maps that can be accumulated over layers, and what each needs
_MAPS = {
    "attn_w": _analysis("attn_w", _SHARE, "attention weight, mean of the heads", ROWS),
    "attn_n": _analysis("attn_n", _NORM, "length of the vector the attention carries from source to target", NORMS),
    "attnres_w": _analysis(
        "attnres_w", _SHARE, "half the attention weight, half the token itself for the residual", ROWS
    ),
    "attnres_n": _analysis("attnres_n", _NORM, "the same length with the residual added to the token itself", NORMS),
    "attnresln_n": _analysis("attnresln_n", _NORM, "the same length past the norm that follows the residual", NORMS),
}
_BLOCK = {
    "block_n": _analysis("block_n", _NORM, "length of the vector from source to target in the whole block", NEURONS)
}
_MIXING = "share that came from other tokens"
_BLOCK_MIXING = {
    "mixing_block_n": Variable(BY_TOKEN, _SHARE, _MIXING, NEURONS, analysis=("mixing", "block_n"), reads="margins")
}
_ALTI = {
    "alti": Variable(
        MAP, _SHARE, "how much nearer a source's vector brings the target to its state", NORMS, reads="rows"
    )
}
_ZEROING = {"value_zeroing": Variable(MAP, _SHARE, "change of the block's output without the source's value", NORMS)}

MEASURES: dict[str, Measure] = {
    "attention": Measure(
        about="The attention weights as the model computed them.",
        variables={
            "attention": Variable(HEADS, _SHARE, "weight of a source in a target's new vector", ATTENTION, reads="rows")
        },
        papers=("vaswani2017",),
        source="whence.measures.attention.variables:attention",
    ),
    "effective": Measure(
        about="The part of the attention that reaches the head's output.",
        variables={
            "effective": Variable(HEADS, "weight", "attention without its part in the null space", VALUES, reads="rows")
        },
        papers=("brunner2020",),
        source="whence.measures.attention.variables:effective",
        takes=takes.effective,
        options=options.Effective,
    ),
    "effective_correlation": Measure(
        about="How alike attention and its effective part are.",
        variables={
            "effective_correlation": Variable(BY_HEAD, "correlation", "Pearson's, over all pairs of tokens", VALUES)
        },
        papers=("brunner2020",),
        source="whence.measures.attention.variables:effective_correlation",
        takes=takes.correlation,
        options=options.EffectiveCorrelation,
    ),
    "null": Measure(
        about="The part of the attention that has no effect on the head's output.",
        variables={"null": Variable(HEADS, "weight", "attention inside the null space", VALUES, reads="rows")},
        papers=("brunner2020",),
        source="whence.measures.attention.variables:effective",
        takes=takes.effective,
        options=options.Null,
    ),
    "value_rank": Measure(
        about="How many directions a head's values span, and how many changes of attention they cannot see.",
        variables={
            "value_rank": Variable(
                BY_HEAD, "dimensions", "numerical rank of the values past the projection", VALUES, reads="margins"
            ),
            "nullity": Variable(BY_HEAD, "dimensions", "changes of a row without effect", VALUES, reads="margins"),
            "nullity_sums": Variable(
                BY_HEAD, "dimensions", "those of them that keep the row's sum", VALUES, reads="margins"
            ),
        },
        papers=("brunner2020",),
        source="whence.measures.attention.variables:rank",
        options=options.ValueRank,
    ),
    "minimum": Measure(
        about="The smallest attention with the same head output and row sums.",
        variables={
            "minimum": Variable(
                HEADS, "weight", "smallest weights that do the same; may be negative", VALUES, reads="rows"
            )
        },
        papers=("brunner2020",),
        source="whence.measures.attention.variables:minimum",
        takes=takes.minimum,
        options=options.Minimum,
    ),
    "minimum_simplex": Measure(
        about="The smallest probability distribution with the same head output.",
        variables={
            "minimum_simplex": Variable(
                HEADS, _SHARE, "smallest distribution that does it", VALUES | ROWS, reads="rows"
            )
        },
        papers=("brunner2020",),
        source="whence.measures.attention.variables:minimum_simplex",
        takes=takes.simplex,
        options=options.MinimumSimplex,
    ),
    "norms": Measure(
        about="How much each source gives each target in the attention part of a block, by weight and by norm.",
        variables=_MAPS,
        papers=("kobayashi2020", "kobayashi2021"),
        source="whence.measures.norms.variables:norms",
        takes=takes.lengths,
    ),
    "norms_heads": Measure(
        about="The same by head, before the residual.",
        variables={"norms_heads": Variable(HEADS, _NORM, "length of what a head carries", NORMS, reads="rows")},
        papers=("kobayashi2020",),
        source="whence.measures.norms.variables:norms_heads",
        takes=takes.by_head,
    ),
    "mixing": Measure(
        about="How much of each token's new vector came from other tokens in the attention part of a block, by five"
        " analyses (`block` adds the sixth); those by weights are NaN where attention rows do not sum to one.",
        variables={"mixing": Variable(("analysis", *BY_TOKEN), _SHARE, _MIXING, NORMS, reads="margins")},
        papers=("kobayashi2021",),
        source="whence.measures.norms.variables:norms",
    ),
    "block": Measure(
        about="The sixth analysis of `norms` and `mixing`: how much each source gives each target in a whole block,"
        " feed-forward included, and how much of each token came from others.",
        variables=_BLOCK | _BLOCK_MIXING,
        papers=("kobayashi2024", "kobayashi2021"),
        source="whence.measures.norms.variables:block",
        takes=takes.through_block,
        options=options.Block,
    ),
    "alti": Measure(
        about="Share of each source in the state after attention, by how much nearer it brings the target.",
        variables=_ALTI,
        papers=("ferrando2022",),
        source="whence.measures.norms.variables:alti",
        takes=takes.by_pair,
    ),
    "value_zeroing": Measure(
        about="Share of each source in a block's output, by what its absence changes.",
        variables=_ZEROING,
        papers=("mohebbi2023",),
        source="whence.measures.norms.variables:value_zeroing",
        takes=takes.zeroing,
    ),
    "expansion": Measure(
        about="How much longer the attention's map makes a vector, from the weights alone.",
        variables={"expansion": Variable(BY_LAYER, "factor", "root mean square of the singular values", NORMS)},
        papers=("kobayashi2021",),
        source="whence.measures.norms.variables:expansion",
        takes=takes.of_weights,
        over="model",
    ),
    "contribution": Measure(
        about="How much each input token contributed to each hidden token (Hidden Token Attribution).",
        variables={
            "contribution": Variable(MAP, _SHARE, "share of an input token in a hidden token", DERIVATIVES),
            "contribution_se": Variable(MAP, _SHARE, _ERROR, DERIVATIVES),
        },
        papers=("brunner2020",),
        source="whence.measures.flow.variables:flow",
        takes=flow_takes.flow,
        over="model",
        options=options.Contribution,
    ),
    "jacobian": Measure(
        about="How strongly each hidden token reacts to each input token.",
        variables={
            "jacobian": Variable(MAP, "norm", "norm of the derivative by the input token", DERIVATIVES),
            "jacobian_se": Variable(MAP, "norm", _ERROR, DERIVATIVES),
        },
        papers=("brunner2020",),
        source="whence.measures.flow.variables:flow",
        takes=flow_takes.flow,
        over="model",
        options=options.Jacobian,
    ),
    "origin": Measure(
        about="What contributions say in a few numbers: what is left of a token, and from how far the rest came.",
        variables={
            "self_contribution": Variable(BY_TOKEN, _SHARE, "share of the token itself", DERIVATIVES),
            "own_largest": Variable(BY_TOKEN, "0 or 1", "whether it is its own largest contributor", DERIVATIVES),
            "by_distance": Variable(
                ("layer", "distance"), "tokens", "total contribution by place, source - target", DERIVATIVES
            ),
            "by_neighbour": Variable(
                ("layer", "target", "neighbour"), _SHARE, "mean contribution of a group of neighbours", DERIVATIVES
            ),
        },
        papers=("brunner2020",),
        source="whence.measures.flow.variables:flow",
        takes=flow_takes.origin,
        over="model",
        options=options.Origin,
        axes={
            "distance": Axis(lambda sizes: 2 * sizes.tokens - 1, lambda size: range(-(size // 2), size // 2 + 1)),
            "neighbour": Axis(lambda sizes: len(NEIGHBOURS), lambda size: tuple(NEIGHBOURS)),
        },
    ),
    "decomposition": Measure(
        about="The vectors that every state is the sum of, one for each input token and one for what belongs to none.",
        variables={
            "decomposition": Variable(MAP, _NORM, "length of the input token's vector in the state", SECANT),
            "decomposition_share": Variable(MAP, _SHARE, "that length among those of all input tokens", SECANT),
            "decomposition_signed": Variable(
                MAP, "signed share", "the vector along the state; with the bias they add up to one", SECANT
            ),
            "decomposition_bias": Variable(BY_TOKEN, _NORM, "length of the vector that belongs to no token", SECANT),
            "decomposition_bias_signed": Variable(BY_TOKEN, "signed share", "that vector along the state", SECANT),
        },
        papers=("modarressi2023", "kobayashi2024"),
        source="whence.measures.flow.variables:decompositions",
        takes=flow_takes.decomposition,
        over="model",
    ),
    "jacobian_local": Measure(
        about="How strongly each token after a block reacts to each token before it, exact.",
        variables={"jacobian_local": Variable(MAP, "norm", "norm of the derivative in one block", DERIVATIVES)},
        papers=("brunner2020",),
        source="whence.measures.flow.variables:local",
        takes=flow_takes.local_norms,
        over="model",
        options=options.JacobianLocal,
    ),
    "gradient": Measure(
        about="G*: gradient of the sum of a hidden token's components by each input token.",
        variables={"gradient": Variable(MAP, "norm", "length of the gradient by the input token", DERIVATIVES)},
        papers=("westera2019",),
        source="whence.measures.flow.variables:gradients",
        takes=flow_takes.gradient,
        over="model",
        options=options.Gradient,
    ),
    "gradient_local": Measure(
        about="G: the same in one block.",
        variables={"gradient_local": Variable(MAP, "norm", "length of the gradient in one block", DERIVATIVES)},
        papers=("westera2019",),
        source="whence.measures.flow.variables:gradients_local",
        takes=flow_takes.gradient_local,
        over="model",
    ),
    "rollout": Measure(
        about="Any of the maps accumulated over layers, rows as shares; see the docs for when it misleads.",
        variables={
            f"rollout_{name}": Variable(
                MAP,
                _SHARE,
                f"{name} accumulated over layers; vectors that cancel still add up",
                base_map.needs | {"attention throughout"},
                base=name,
                analysis=("rollout", name),
            )
            for name, base_map in (_MAPS | _BLOCK | _ALTI | _ZEROING).items()
        },
        papers=("abnar2020",),
        source="whence.measures.norms.variables:rollouts",
        takes=takes.rolled,
        over="layers",
    ),
}
