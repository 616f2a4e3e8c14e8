"""The algorithms of the FlashAttention papers, line by line in numpy, over a slow memory that counts every number.

Dao et al. 2022, Algorithms 0 and 1; Dao 2023 ("FlashAttention-2"), Algorithm 1. Scores are already divided by √D.
`allowed` (T,S): masked cells are −∞; of a tile without a permitted cell nothing is read, as in 2023, §3.1.
"""

import numpy as np


class SlowMemory:
    """Named arrays (T,…) of which rows are loaded and stored; `read` and `written` count their numbers."""

    def __init__(self, **arrays):
        self.arrays, self.read, self.written = arrays, 0, 0

    def load(self, name, rows=slice(None)):
        part = self.arrays[name][rows].copy()
        self.read += part.size
        return part

    def store(self, name, part, rows=slice(None)):
        self.arrays[name][rows] = part
        self.written += part.size


def slow_memory(query, key, value):
    queries, keys = len(query), len(key)
    return SlowMemory(
        Q=query,
        K=key,
        V=value,
        O=np.full((queries, value.shape[1]), np.nan),
        l=np.full(queries, np.nan),
        m=np.full(queries, np.nan),
        L=np.full(queries, np.nan),
        S=np.full((queries, keys), np.nan),
        P=np.full((queries, keys), np.nan),
    )


def algorithm_0(query, key, value, allowed):
    memory = slow_memory(query, key, value)
    memory.store("S", np.where(allowed, memory.load("Q") @ memory.load("K").T, -np.inf))
    scores = memory.load("S")
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    memory.store("P", exponentials / exponentials.sum(1, keepdims=True))
    memory.store("O", memory.load("P") @ memory.load("V"))
    return memory


def algorithm_1_of_2022(query, key, value, allowed, rows, columns):
    """Keys outside; O, l and m travel. Needs a permitted key in every row."""
    memory = slow_memory(query, key, value)
    memory.store("O", np.zeros_like(memory.arrays["O"]))
    memory.store("l", np.zeros(len(query)))
    memory.store("m", np.full(len(query), -np.inf))
    for j in blocks(len(key), columns):
        if not allowed[:, j].any():
            continue
        key_block, value_block = memory.load("K", j), memory.load("V", j)
        for i in blocks(len(query), rows):
            if not allowed[i, j].any():
                continue
            query_block, output = memory.load("Q", i), memory.load("O", i)
            total, maximum = memory.load("l", i), memory.load("m", i)
            scores = np.where(allowed[i, j], query_block @ key_block.T, -np.inf)
            of_tile = scores.max(1)
            exponentials = np.exp(scores - shift(of_tile)[:, None])
            new_maximum = np.maximum(maximum, of_tile)
            old = np.exp(maximum - shift(new_maximum)) * total
            new = np.exp(of_tile - shift(new_maximum))
            new_total = old + new * exponentials.sum(1)
            mixed = old[:, None] * output + new[:, None] * (exponentials @ value_block)
            memory.store("O", mixed / np.where(new_total == 0, 1, new_total)[:, None], i)
            memory.store("l", new_total, i)
            memory.store("m", new_maximum, i)
    return memory


def algorithm_1_of_2023(query, key, value, allowed, rows, columns):
    """Queries outside; O stays in fast memory."""
    memory = slow_memory(query, key, value)
    for i in blocks(len(query), rows):
        if allowed[i].any():
            query_block = memory.load("Q", i)
        size = len(range(len(query))[i])
        output, total, maximum = np.zeros((size, value.shape[1])), np.zeros(size), np.full(size, -np.inf)
        for j in blocks(len(key), columns):
            if not allowed[i, j].any():
                continue
            key_block, value_block = memory.load("K", j), memory.load("V", j)
            scores = np.where(allowed[i, j], query_block @ key_block.T, -np.inf)
            new_maximum = np.maximum(maximum, scores.max(1))
            exponentials = np.exp(scores - shift(new_maximum)[:, None])
            factor = np.exp(maximum - shift(new_maximum))
            total = factor * total + exponentials.sum(1)
            output = factor[:, None] * output + exponentials @ value_block
            maximum = new_maximum
        memory.store("O", output / np.where(total == 0, 1, total)[:, None], i)
        memory.store("L", maximum + np.log(np.where(total == 0, 1, total)), i)
    return memory


def blocks(length, size):
    return [slice(at, at + size) for at in range(0, length, size)]


def shift(maximum):
    """What is subtracted before exp: of a row without a permitted key nothing, for −∞ − −∞ is no number."""
    return np.where(np.isneginf(maximum), 0, maximum)
