"""whence.perturb: recipes change what they say, the asked place moves along, and before is compared with after."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import whence
from tests.families import build
from whence.corpus.perturb import END, MASK, PERIOD, RECIPES, Recipe, changed, perturb, recipes_of
from whence.corpus.questions import question_of
from whence.errors import BadInput
from whence.text.sentence import Sentence

TEXT = "Dr. Who was born in [MASK]."


def asked(model, text=TEXT, pair=None):
    found, _ = question_of(model, Sentence(text, pair, labels={"answer": "london"}))
    return found


def shown(model, one):
    return model.tokenizer.convert_ids_to_tokens(list(one.ids))


@pytest.mark.parametrize(
    ("recipe", "tokens", "moved"),
    [
        (Recipe(PERIOD), "[CLS] dr . who was born in [MASK] [SEP]", 0),
        (Recipe(END), "[CLS] dr . who was born in [MASK] .", 0),
        (Recipe(MASK, by="cat"), "[CLS] dr . who was born in cat . [SEP]", 0),
        (Recipe("."), "[CLS] dr who was born in [MASK] . [SEP]", -1),
        (Recipe("born", by="raised"), "[CLS] dr . who was raised in [MASK] . [SEP]", 0),
        (Recipe("was", by="hurdy gurdy"), "[CLS] dr . who hu ##rdy gu ##rdy born in [MASK] . [SEP]", 3),
        (Recipe(0), "dr . who was born in [MASK] . [SEP]", -1),
        (Recipe(-1), "[CLS] dr . who was born in [MASK] .", 0),
        (Recipe(3, by="it"), "[CLS] dr . it was born in [MASK] . [SEP]", 0),
    ],
)
def test_what_a_recipe_does(builtin, recipe, tokens, moved):
    before = asked(builtin)
    after = changed(builtin, before, recipe)
    assert " ".join(shown(builtin, after)) == tokens
    assert after.position == before.position + moved
    assert shown(builtin, after)[after.position] == ("cat" if recipe.token == MASK else "[MASK]")
    assert len(after.ids) == len(after.segments) == len(after.special)


@pytest.mark.parametrize(
    ("text", "recipe"),
    [
        ("Mr. Fox has no [MASK]", Recipe(PERIOD)),
        ("Who has [MASK]?", Recipe(PERIOD)),
        (TEXT, Recipe("dog")),
        (TEXT, Recipe(40)),
        (TEXT, Recipe(MASK)),  # nothing would be left to look at
        (TEXT, Recipe(7)),
    ],
)
def test_where_a_recipe_does_not_apply(builtin, text, recipe):
    assert changed(builtin, asked(builtin, text), recipe) is None


def test_segments_follow(builtin):
    after = changed(builtin, asked(builtin, "It rained.", "The [MASK] was wet."), Recipe("rained", by="hurdy"))
    assert after.segments == (0,) * 6 + (1,) * 6


def test_byte_level_pieces(smollm2):
    before, _ = question_of(smollm2, Sentence("The cat sat on the [MASK]", labels={"answer": "mat"}))
    after = changed(smollm2, before, Recipe("cat", by="dog"))
    assert smollm2.tokenizer.decode(after.ids) == "The dog sat on the" and after.position == before.position
    assert changed(smollm2, before, Recipe(END)) is None


@pytest.fixture(scope="module")
def corpus():
    texts = [(TEXT, "London"), ("The sky is [MASK]", "blue"), ("No gap.", "x"), ("A dog is an [MASK].", "animal")]
    return [Sentence(text, labels={"answer": answer}) for text, answer in texts]


def test_before_and_after_by_hand(builtin, corpus):
    recipes = ["no-period", "mask-word", Recipe("is")]
    found = perturb(builtin, corpus, recipes)
    assert found.recipe.values.tolist() == ["no-period", "mask-word", "without is"]
    assert found.applied.values.tolist() == [2, 3, 2]
    for name, recipe in recipes_of(recipes).items():
        for place, given in enumerate(corpus):
            before, _ = question_of(builtin, given)
            after = None if before is None else changed(builtin, before, recipe)
            one = found.sel(recipe=name).isel(sentence=place, stage=-1)
            if after is None:
                assert np.isnan(one.spearman) and np.isnan(one.place_after)
                continue
            first, second = (logits(builtin, each) for each in (before, after))
            assert abs(float(one.spearman) - spearmanr(first, second).statistic) < 1e-5
            assert int(one["place"]) == 1 + int((first > first[before.answer]).sum())
            assert int(one.place_after) == 1 + int((second > second[before.answer]).sum())
    same = found["place"].isel(sentence=[0, 3], stage=-1)
    assert int(found.hits_before.sel(recipe="no-period", k=100).isel(stage=-1)) == int((same <= 100).sum())


def logits(model, one):
    with torch.no_grad():
        return model.model(input_ids=torch.tensor([one.ids])).logits[0, one.position].numpy()


def test_it_goes_on_and_says_what_differs(builtin, corpus, tmp_path):
    first = perturb(builtin, corpus, ["no-end"], out=tmp_path / "run", part_size=2)
    again = perturb(builtin, corpus, ["no-end"], out=tmp_path / "run", part_size=2)
    assert first.identical(again) and set(RECIPES) == {"no-period", "no-end", "mask-word"}
    with pytest.raises(BadInput, match="begun with recipes"):
        perturb(builtin, corpus, ["no-period"], out=tmp_path / "run", part_size=2)


def test_a_random_model_of_another_kind(builtin, corpus):
    """RoBERTa's positions are counted by the model, ALBERT shares its weights."""
    for name in ("albert", "distilbert"):
        model = whence.load(build(name, vocab_size=30522), builtin.tokenizer)
        found = perturb(model, corpus, ["no-end"])
        assert np.isfinite(found.spearman.isel(recipe=0).values[[0, 1, 3]]).all()


@pytest.mark.parametrize(("recipes", "says"), [(["shuffle"], "no recipe 'shuffle'"), ([], "No recipe")])
def test_bad_recipes(builtin, corpus, recipes, says):
    with pytest.raises(BadInput, match=says):
        perturb(builtin, corpus, recipes)


def test_a_word_that_is_no_token(builtin, corpus):
    with pytest.raises(BadInput, match="gives no token"):
        perturb(builtin, corpus, [Recipe(MASK, by=" ")])
