"""What is learned from: nothing lost, and no target that cannot be known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties import examples
from tests.support.small_tokenizers import small_tokenizer, story
from viz_model.training.data import (
    HELD_OUT_SHARE,
    IGNORED,
    LONGEST_PASSAGE,
    MOST_BETWEEN,
    NEWLINE,
    SHORTEST_PASSAGE,
    Batch,
    encode_books,
    hide,
    joined,
    masked_batch,
    passage_batch,
    recurring_batch,
    repeated_batch,
    split_books,
    text_batch,
)

TOKENIZER = small_tokenizer()


@examples(100)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(15, 70))
def test_targets_of_repeats_are_exactly_those_that_can_be_known(seed, rows, length):
    batch = repeated_batch(1000, rows, length, np.random.default_rng(seed))
    assert batch.ids.shape == batch.targets.shape == (rows, length)
    again = repeated_batch(1000, rows, length, np.random.default_rng(seed))
    np.testing.assert_array_equal(batch.ids, again.ids)
    for ids, targets in zip(batch.ids, batch.targets, strict=True):
        counted = [t for t in range(length) if targets[t] != IGNORED]
        half = len(counted) + 1
        assert max(2, length // 8) <= half <= (length + 1) // 2
        whole = [*ids, targets[-1]]  # the row with the token that comes after its last one
        first, second = whole[-2 * half : -half], whole[-half:]
        assert first == second
        # Known is a token of the second copy whose forerunner in that copy has been seen.
        assert counted == list(range(len(whole) - half, length))
        for t in counted:
            assert targets[t] == whole[t + 1] == whole[t + 1 - half]


@examples(100)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(15, 70))
def test_a_segment_comes_twice_somewhere_and_only_its_second_copy_counts(seed, rows, length):
    tokens = np.arange(1000) * 3
    batch = recurring_batch(tokens, rows, length, np.random.default_rng(seed))
    assert batch.ids.shape == batch.targets.shape == (rows, length)
    assert set(batch.ids.ravel()) <= set(tokens)
    for ids, targets in zip(batch.ids, batch.targets, strict=True):
        counted = np.flatnonzero(targets != IGNORED)
        size = len(counted) + 1
        assert length // 4 <= size <= length // 2
        assert (np.diff(counted) == 1).all()
        whole = [*ids, targets[-1] if targets[-1] != IGNORED else -1]
        second = whole[counted[0] : counted[0] + size]
        assert [targets[at] for at in counted] == second[1:]
        earlier = [at for at in range(counted[0] - size + 1) if whole[at : at + size] == second]
        assert earlier  # all of it stood there before, not overlapping


def test_copies_stand_everywhere_and_at_every_distance():
    targets = recurring_batch(np.arange(50), 4000, 24, np.random.default_rng(0)).targets
    assert set((targets != IGNORED).sum(1) + 1) == set(range(6, 13))
    assert (targets != IGNORED).any(0)[6:].all()


def test_segments_are_of_every_length_and_tokens_of_every_kind():
    batch = repeated_batch(50, 2000, 32, np.random.default_rng(0))
    assert set((batch.targets != IGNORED).sum(1) + 1) == set(range(4, 17))
    assert set(batch.ids.flatten()) == set(range(50))


@examples(100)
@given(st.lists(st.lists(st.text("ab é.", min_size=1, max_size=60), min_size=1, max_size=9), min_size=1, max_size=5))
def test_splitting_books_loses_no_text(books):
    texts = ["\n".join(book) for book in books]
    beginnings, ends = split_books("\n\n" + "\n\n".join(texts) + "\n")
    assert [beginning + end for beginning, end in zip(beginnings, ends, strict=True)] == texts
    for text, beginning, end in zip(texts, beginnings, ends, strict=True):
        assert not beginning or beginning.endswith("\n")  # whole paragraphs only
        assert end
        if beginning:
            assert len(beginning) <= len(text) * (1 - HELD_OUT_SHARE) + 1


def test_about_the_share_that_it_should_is_held_out():
    beginnings, ends = split_books(story())
    assert len(beginnings) == len(ends) == 2
    share = sum(map(len, ends)) / len(story())
    assert HELD_OUT_SHARE <= share < HELD_OUT_SHARE + 0.01


def test_a_text_without_blank_lines_is_one_book():
    text = "\n".join(f"paragraph {n}" for n in range(100))
    (beginning,), (end,) = split_books(text)
    assert beginning + end == text
    assert 3 <= end.count("\n") + 1 <= 5


def test_books_become_one_row_of_ids():
    stream = encode_books(["the a", "", "the"], TOKENIZER)
    assert stream.dtype == np.uint16
    end = TOKENIZER.end_of_text
    assert stream.tolist() == [end, *TOKENIZER.encode("the a"), end, end, *TOKENIZER.encode("the")]
    parts = TOKENIZER.decode(stream.tolist()).split("<|endoftext|>")
    assert parts == ["", "the a", "", "the"]


@pytest.mark.parametrize("size", [9, 10, 50])
def test_text_batches_are_windows_of_the_text_from_all_of_it(size):
    stream = np.arange(100, 100 + size, dtype=np.uint16)
    batch = text_batch(stream, 500, 8, np.random.default_rng(0))
    assert batch.ids.shape == batch.targets.shape == (500, 8)
    np.testing.assert_array_equal(batch.targets, batch.ids + 1)
    np.testing.assert_array_equal(batch.ids - batch.ids[:, :1], np.tile(np.arange(8), (500, 1)))
    assert set(batch.ids[:, 0]) == set(range(100, 100 + size - 8))  # the last window too, and none beyond
    assert batch.ids.dtype == batch.targets.dtype == np.int64


COUNTED = np.arange(10_000_000, dtype=np.int32)  # a text in which no token comes twice


def repeated(whole):
    """(start, size, start of its copy) of the first piece of a row that comes again."""
    copy = next(place for place, token in enumerate(whole) if token in whole[:place])
    first, size = whole.index(whole[copy]), 1
    while first + size < copy and copy + size < len(whole) and whole[first + size] == whole[copy + size]:
        size += 1
    return first, size, copy


def test_a_passage_of_the_text_comes_again_and_every_next_token_counts():
    batch = passage_batch(COUNTED, 400, 256, np.random.default_rng(0))
    assert batch.ids.shape == batch.targets.shape == (400, 256)
    np.testing.assert_array_equal(batch.ids[:, 1:], batch.targets[:, :-1])
    whole = np.hstack((batch.ids, batch.targets[:, -1:]))
    firsts, sizes, gaps = [], [], []
    for row in whole.tolist():
        first, size, copy = repeated(row)
        assert row[first : first + size] == row[copy : copy + size]
        assert (np.diff(row[first : first + size]) == 1).all()  # as it stands in the text
        firsts.append(first)
        if copy + size == len(row):
            continue  # the row ends within the copy
        sizes.append(size)
        gaps.append(copy - first - size)
    assert SHORTEST_PASSAGE == min(sizes) < LONGEST_PASSAGE - 5 < max(sizes) <= LONGEST_PASSAGE + MOST_BETWEEN
    assert 0.4 < np.mean(np.array(firsts) == 0) < 0.6
    assert 0.4 < np.mean(np.array(gaps) == 0) < 0.6
    assert max(gaps) <= MOST_BETWEEN
    several = [max(row.count(token) for token in set(row)) > 2 for row in whole.tolist()]
    assert 0.15 < np.mean(several) < 0.3


@examples(50)
@given(st.integers(0, 10**6), st.integers(24, 300))
def test_rows_with_a_passage_have_any_length(seed, length):
    batch = passage_batch(COUNTED, 2, length, np.random.default_rng(seed))
    assert batch.ids.shape == batch.targets.shape == (2, length)
    again = passage_batch(COUNTED, 2, length, np.random.default_rng(seed))
    np.testing.assert_array_equal(batch.ids, again.ids)
    assert all(len(set(row)) < length for row in batch.ids.tolist())


def test_joined_batches_stand_one_below_the_other():
    one, other = Batch(np.zeros((2, 3)), np.ones((2, 3))), Batch(np.full((1, 3), 2), np.full((1, 3), 3))
    both = joined(one, other)
    assert both.ids.tolist() == [[0] * 3, [0] * 3, [2] * 3]
    assert both.targets.tolist() == [[1] * 3, [1] * 3, [3] * 3]


def test_masked_windows_are_of_every_halved_length_and_short_ones_begin_a_paragraph():
    stream = np.where(np.arange(4000) % 37 == 0, NEWLINE, 100 + np.arange(4000) % 300).astype(np.uint16)
    lengths = []
    for seed in range(60):
        batch = masked_batch(stream, 4, 32, 999, np.random.default_rng(seed), 0.2, shortest=8)
        rows, length = batch.ids.shape
        assert rows * length == 4 * 32
        lengths.append(length)
        whole = np.where(batch.targets == IGNORED, batch.ids, batch.targets)
        places = [
            np.flatnonzero((np.lib.stride_tricks.sliding_window_view(stream, length) == row).all(1)) for row in whole
        ]
        assert all(len(place) for place in places), "a piece of the text"
        if length < 32:
            assert all(any(stream[place - 1] == NEWLINE for place in some if place) for some in places)
    assert set(lengths) == {8, 16, 32}
    assert {masked_batch(stream, 4, 32, 999, np.random.default_rng(n)).ids.shape for n in range(9)} == {(4, 32)}


def test_hidden_tokens_are_chosen_and_replaced_in_the_shares_of_bert():
    """Devlin et al. 2019, §3.1: 15 % chosen; of these 80 % the mask token, 10 % a random one, 10 % unchanged.

    Another share of chosen tokens is one that somebody asks for.
    """
    mask, n = 99, 400_000
    ids = np.random.default_rng(1).integers(0, 98, (400, n // 400))
    hidden = hide(ids, mask, np.random.default_rng(2))
    chosen = hidden.targets != IGNORED
    np.testing.assert_array_equal(hidden.targets[chosen], ids[chosen])
    np.testing.assert_array_equal(hidden.ids[~chosen], ids[~chosen])

    def close_to(share, found, count):
        assert found / count == pytest.approx(share, abs=4 * (share * (1 - share) / count) ** 0.5)

    close_to(0.15, chosen.sum(), n)
    close_to(0.3, (hide(ids, mask, np.random.default_rng(3), 0.3).targets != IGNORED).sum(), n)
    now, before = hidden.ids[chosen], ids[chosen]
    close_to(0.8, (now == mask).sum(), chosen.sum())
    close_to(0.1 + 0.1 / 98, (now == before).sum(), chosen.sum())  # a random token may be the same
    others = now[(now != mask) & (now != before)]
    assert set(others) == set(range(98))  # every ordinary token, and no control token
