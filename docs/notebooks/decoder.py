# %% [markdown]
# # A decoder, and why it says what it says
#
# A decoder predicts the next token. `whence.why` takes that prediction back to the tokens of the prompt. The parts are signed, and they add up to the
# logit that the model computed, at every layer. The model is small, so that this runs on a laptop in a minute. What is shown below was computed
# with its weights in four bits; with the full ones, the last digits are others.

# %%
import whence

model = whence.load("HuggingFaceTB/SmolLM2-135M-Instruct")
model.anatomy.layers, model.anatomy.heads, model.anatomy.width

# %% [markdown]
# ## The next token

# %%
prompt = "Lisa keeps a parrot. Her parrot is green. The color of Lisa's parrot is"
why = whence.why(model, prompt)
print(repr(str(why.predicted_token.values[0])), f"{float(why.probability[0]):.0%}")

# %% [markdown]
# Which tokens gave it that? Layer 0 is the input itself.


# %%
def strongest(ds, count=5):
    """The sources with the largest parts of the first prediction."""
    shares = ds.share.sel(layer=0).isel(predicted=0).to_series()
    shares.index = [f"{place} {token}" for place, token in enumerate(ds.source_token.values)]
    return shares.sort_values(key=abs, ascending=False).head(count).round(2)


strongest(why)

# %% [markdown]
# The first token is a *sink*: heads that have nothing to do look at it. Its part is large for every candidate alike. To ask what decided, name the
# other candidate: what both were given is gone.

# %%
lead = whence.why(model, prompt, against=" red")
strongest(lead)

# %% [markdown]
# Exactly? The parts and the constants, against the lead in logits:

# %%
gap = lead.share.sum("source") + lead.bias - lead.logit
float(abs(gap).max()) < 1e-3

# %% [markdown]
# ## Which sentence
#
# Spans add up as tokens do. By sentence, the lead comes from where the colour was said:

# %%
by_sentence = whence.why(model, prompt, against=" red", spans="sentence")
parts = by_sentence.span_share.sel(layer=0).isel(predicted=0)
dict(zip(by_sentence.span_text.values.tolist(), parts.values.round(2).tolist(), strict=True))

# %% [markdown]
# ## Where in depth
#
# Read the shares at a layer in the middle, and they are those of the states there. How much of the lead sits already where it is predicted? Nearly
# nothing until late; then the last token fetches it.

# %%
place = int(lead.predicted[0])
by_layer = lead.share.isel(predicted=0).sel(source=place) / float(lead.logit[0])
by_layer.to_series().iloc[::6].round(2)

# %% [markdown]
# ## An answer
#
# `generate=` lets the model answer, and every token of the answer is explained. `through="generated"` hands on what rests on the answer's own
# tokens, so that everything goes back to the prompt.

# %%
answer = whence.why(model, prompt, generate=3, through="generated")
print("".join(str(token) for token in answer.predicted_token.values).replace("▁", " "))
page = whence.report(answer, "answer.html")

# %% [markdown]
# A share is an account of how the logit was made. It does not say what would happen otherwise. For that, change the text and ask again:

# %%
other = whence.why(model, prompt.replace("green", "red"), measures="share")
str(other.predicted_token.values[0])
