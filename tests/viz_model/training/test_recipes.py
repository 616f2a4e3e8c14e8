"""Recipes as data."""

import pytest

from tests.support.small_models import small_config
from viz_model.errors import TrainingError
from viz_model.training.recipes import RECIPES, Recipe, Stage

RECIPE = Recipe(small_config(), (Stage("echo", 3, 1, 8), Stage("copy", 0, 1, 8), Stage("text", 4, 1, 8)))


def test_steps_are_counted_over_all_stages():
    assert RECIPE.steps == 7
    places = [(RECIPE.at(step)[0].objective, RECIPE.at(step)[1]) for step in range(7)]
    assert places == [
        ("echo", 0),
        ("echo", 1),
        ("echo", 2),
        ("text", 0),
        ("text", 1),
        ("text", 2),
        ("text", 3),
    ]
    with pytest.raises(TrainingError, match="only 7 steps"):
        RECIPE.at(7)


def test_a_longer_text_stage_changes_no_other():
    assert RECIPE.first_text_step() == 3
    longer = RECIPE.with_text_steps(10)
    assert longer.steps == 13
    assert longer.stages[:2] == RECIPE.stages[:2]
    assert longer.stages[2].rate == RECIPE.stages[2].rate
    assert (longer.config, longer.seed) == (RECIPE.config, RECIPE.seed)


def test_of_two_text_stages_the_last_is_the_one_that_is_gone_on_with():
    recipe = Recipe(small_config(), (Stage("text", 4, 1, 8), Stage("text", 6, 1, 8, dropout=0.1)))
    assert recipe.first_text_step() == 4
    longer = recipe.with_text_steps(9)
    assert longer.stages == (recipe.stages[0], Stage("text", 9, 1, 8, dropout=0.1))


def test_a_recipe_without_text_says_so():
    with pytest.raises(TrainingError, match="no stage on text"):
        Recipe(small_config(), (Stage("copy", 2, 1, 8),)).with_text_steps(3)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_every_recipe_fits_its_own_model(recipe):
    for stage in recipe.stages:
        assert stage.objective in ("echo", "induction", "copy", "text", "masked", "target", "recurring")
        assert stage.length <= recipe.config.context_length
        assert max(stage.heads, stage.echo_heads) <= recipe.config.n_heads
        assert 0 <= stage.decay <= 1
