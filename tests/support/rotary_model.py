"""A small model with rotary positions beside the bundled ones, for pages that need one."""

from pathlib import Path

import viz_model as vm
from tests.support.small_models import small_model

NAME = "turning"


def save_turning(folder: Path) -> vm.Model:
    """Write it into a folder that the environment variable VIZ_FETCHED names: tiny-gpt's tokenizer, D = 6, G < H."""
    tokenizer = vm.load("tiny-gpt").tokenizer
    transformer = small_model(position="rotary", vocab_size=tokenizer.vocab_size, context_length=256)
    vm.checkpoints.save(folder / NAME, transformer, tokenizer)
    return vm.load(folder / NAME)
