import marimo

__generated_with = "0.25.2"
app = marimo.App()


@app.cell
def _():
    import marimo as mo

    return (mo,)


@app.cell
def _(mo):
    mo.md(r"""
    # A sentence in an encoder

    Where does the information in each hidden token come from, and how much of the token itself is left? This notebook asks a small masked language
    model, the one inside the package, so it runs anywhere and offline. Put the name of your own model into `whence.load` when you are done.
    """)
    return


@app.cell
def _():
    import whence
    from whence.plot import charts

    model = whence.load()
    model.anatomy.layers, model.anatomy.heads, model.anatomy.width
    return (charts, model, whence,)


@app.cell
def _(mo):
    mo.md(r"""
    Nothing is measured before it is checked. The parts that whence takes out of the model have to add up to what the model computes itself,
    token by token. Each row is a check; `error` is what was found, `limit` what it may be.
    """)
    return


@app.cell
def _(model, whence):
    checks = whence.verify(model)
    checks[["check", "error", "limit", "passed"]].head(5)
    return (checks,)


@app.cell
def _(mo):
    mo.md(r"""
    ## One call

    A sentence goes in, and a `Dataset` of xarray comes out. Its axes have names: `layer` from 1, `head` from 0, `target` (who receives), `source` (from
    whom).
    """)
    return


@app.cell
def _(model, whence):
    text = "The keys to the cabinet [MASK] on the table."
    ds = whence.measure(model, text, ["attention", "norms", "mixing"])
    dict(ds.sizes)
    return (ds, text,)


@app.cell
def _(mo):
    mo.md(r"""
    *Mixing* is how much of a token's new vector came from other tokens in one block. The charts are drawn with Altair; here a row is a layer, the
    first at the bottom.
    """)
    return


@app.cell
def _(charts, ds):
    charts.mixing_grid(ds)
    return


@app.cell
def _(mo):
    mo.md(r"""
    Attention alone would say something else. It leaves out how long the vectors are and how much stays in the residual connection; the norms have
    both. Side by side, in the last layer:
    """)
    return


@app.cell
def _(charts, ds):
    charts.maps(ds, ["attention", "attnresln_n"], layer=6)
    return


@app.cell
def _(mo):
    mo.md(r"""
    Attention says that the tokens look elsewhere. The norms with residual and LayerNorm (Kobayashi et al. 2021) say that most of a token stays
    where it is. In numbers, the share that stays with the token itself, as the mean of all tokens:
    """)
    return


@app.cell
def _(ds):
    last = ds.norms.sel(layer=6, analysis=["attn_w", "attnresln_n"])
    shares = last / last.sum("source")
    {str(name): round(float(shares.sel(analysis=name).values.diagonal().mean()), 2) for name in shares.analysis.values}
    return (last, shares,)


@app.cell
def _(mo):
    mo.md(r"""
    ## Through all layers

    One block is not the model. `contribution` follows a token through all layers down to the input (Brunner et al. 2020). Which tokens of the input is
    the masked token made of at the end?
    """)
    return


@app.cell
def _(model, text, whence):
    through = whence.measure(model, text, whence.Contribution(mode="exact"), targets=[6])
    made_of = through.contribution.sel(layer=6, target=6).to_series()
    made_of.rename(dict(enumerate(through.source_token.values))).sort_values(ascending=False).head(4).round(3)
    return (made_of, through,)


@app.cell
def _(mo):
    mo.md(r"""
    ## Why this word

    The model predicts a word for the mask. Its logit is a sum of parts, one for each token of the input, and the parts are exact.
    """)
    return


@app.cell
def _(model, text, whence):
    why = whence.why(model, text, against="is")
    parts = why.share.sel(layer=0).isel(predicted=0)
    print(str(why.predicted_token.values[0]), "rather than", str(why.against_token.values[0]))
    parts.to_series().rename(dict(enumerate(why.source_token.values))).sort_values(ascending=False).head(4).round(2)
    return (parts, why,)


@app.cell
def _(mo):
    mo.md(r"""
    *keys* gave most of the lead of the plural over the singular, and *cabinet*, which stands nearer, little. The parts and the constants add up to
    the lead:
    """)
    return


@app.cell
def _(parts, why):
    round(float((parts.sum() + why.bias.sel(layer=0).isel(predicted=0)) - why.logit.values[0]), 4) == 0
    return


@app.cell
def _(mo):
    mo.md(r"""
    ## Show it

    `whence.widget(ds)` shows the same in a notebook, with hovering; `whence.report` writes a page that opens offline. `whence.cite` names the papers.
    """)
    return


@app.cell
def _(ds, whence, why):
    page = whence.report(why, "sentence.html")
    print(whence.cite(ds)[:120], "…")
    return (page,)


if __name__ == "__main__":
    app.run()
