"""What `vm.head_report` shall give, written out query by query in numpy, from attention maps of any origin."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
PUNCTUATION = re.compile(r"[!-#%-*,-/:;?@\[-\]_{}\n]")
SHARES = ("previous token", "k before", "first token", "itself", "same token", "induction", "same word",
          "start of sentence", "punctuation", "next token", "special token", "learned sink",
          "evenly spread")  # fmt: skip


@dataclass
class Facts:
    """Of each token: its word, the first token of its sentence, and whether it is punctuation; None for no such."""

    words: list
    sentences: list
    punctuation: list

    @classmethod
    def of(cls, pieces):
        whole = b"".join(pieces).decode()
        ends = np.cumsum([len(piece.decode()) for piece in pieces])
        spans = list(zip([0, *ends[:-1]], ends, strict=True))
        words = [
            next((n for n, its in enumerate(WORD.finditer(whole)) if its.start() < stop and start < its.end()), None)
            for start, stop in spans
        ]
        starts = set()
        for end in re.finditer(r"[.!?\n]", whole):
            inside = next(n for n, (start, stop) in enumerate(spans) if start <= end.start() < stop)
            starts |= {next((n for n in range(inside + 1, len(spans)) if words[n] is not None), len(spans))}
        sentences = [max((start for start in starts if start <= n), default=None) for n in range(len(spans))]
        marks = [
            bool(PUNCTUATION.search(whole[start:stop])) and words[n] is None for n, (start, stop) in enumerate(spans)
        ]
        return cls(words, sentences, marks)


@dataclass
class Expected:
    """Of one head: a number for each query that counts, by pattern; and the weight that names explain, of any query."""

    is_cross: bool = False
    has_sinks: bool = False
    values: dict = field(default_factory=lambda: defaultdict(list))
    uniform: dict = field(default_factory=lambda: defaultdict(list))
    rows: list = field(default_factory=list)  # (row, permitted, cells by pattern) of each query

    def read(self, weights, allowed, ids, key_ids, facts=None, signs=()):
        """One window: weights and allowed (T,S); facts: of the keys' text, where there is one."""
        for query, (row, may) in enumerate(zip(np.asarray(weights, float), np.asarray(allowed), strict=True)):
            if not may.any():
                continue
            even = may / may.sum()
            cells = self.cells(query, ids, key_ids, facts, signs)
            for name, keys in cells.items():
                if any(may[key] for key in keys):
                    self.values[name].append(sum(row[key] for key in keys))
                    self.uniform[name].append(sum(even[key] for key in keys))
            self.rows.append((row, even, cells))
            read = row / row.sum()
            self._note("evenly spread", np.minimum(row, even).sum(), 1.0)
            self._note("largest weight", row.max(), even.max())
            self._note("entropy", *(-sum(p * np.log2(p) for p in shares if p > 0) for shares in (read, even)))
            if not self.is_cross:
                away = np.abs(np.arange(len(row)) - query)
                self._note("mean distance", (read * away).sum(), (even * away).sum())
            if self.has_sinks:
                self._note("learned sink", 1 - row.sum(), 0.0)

    def cells(self, query, ids, key_ids, facts, signs):
        keys = range(len(key_ids))
        found = {"first token": [0]}
        if self.is_cross:
            found["same token"] = [key for key in keys if key_ids[key] == ids[query]]
            found["induction"] = [key for key in keys if key and key_ids[key - 1] == ids[query]]
        else:
            found["same token"] = [key for key in keys if key_ids[key] == ids[query] and key != query]
            found["induction"] = [key + 1 for key in found["same token"] if key + 1 not in (query, len(key_ids))]
            for k in range(-32, 33):
                found[k] = [query - k] if 0 <= query - k < len(key_ids) else []
        if facts:
            found["special token"] = [key for key in keys if key_ids[key] in signs]
            found["punctuation"] = [key for key in keys if facts.punctuation[key]]
            if not self.is_cross:
                word, first = facts.words[query], facts.sentences[query]
                found["same word"] = [k for k in keys if word is not None and facts.words[k] == word and k != query]
                found["start of sentence"] = [first] if first not in (None, 0, query) else []
        return found

    def _note(self, name, value, uniform):
        self.values[name].append(value)
        self.uniform[name].append(uniform)

    @property
    def scores(self):
        """(mean, uniform) by pattern, and k."""
        means = {name: (np.mean(self.values[name]), np.mean(self.uniform[name])) for name in self.values}
        found = {name: pair for name, pair in means.items() if isinstance(name, str)}
        names = {"previous token": 1, "itself": 0, "next token": -1}
        found |= {name: means[k] for name, k in names.items() if k in means}
        far = {k: mean for k, (mean, _) in means.items() if k not in (-1, 0, 1) and not isinstance(k, str)}
        self.k = max(far, key=far.get, default=None)
        return found | ({"k before": means[self.k]} if far else {})

    def explained(self, *names):
        """The share of all attention that is on the cells of any of these patterns."""
        bases = {"previous token": 1, "itself": 0, "next token": -1, "k before": self.k}
        total = 0.0
        for row, even, cells in self.rows:
            explained = np.minimum(row, even) if "evenly spread" in names else np.zeros_like(row)
            for name in names:
                keys = cells.get(bases.get(name, name), [])
                explained[keys] = row[keys]
            total += explained.sum() + ("learned sink" in names) * (1 - row.sum())
        return total / len(self.rows)

    def name(self):
        """(patterns, share) as they are to be: the best pair, or one alone to which no other adds a tenth."""
        names = [name for name in SHARES if name in self.scores]
        alone = {name: self.explained(name) for name in names}
        best = max(alone, key=alone.get)
        pairs = {pair: self.explained(*pair) for pair in combinations(names, 2)}
        pair = max(pairs, key=pairs.get)
        if pairs[pair] - alone[best] < 0.1:
            return {best}, alone[best]
        return set(pair), pairs[pair]


def agree(report, layer, head, expected, tolerance=1e-4):
    """Every pattern of a head, and no other one; and its name, unless two are equally good."""
    scores = report.scores
    scores = scores[(scores.layer == layer) & (scores["head"] == head)].set_index("pattern")
    wanted = expected.scores
    assert set(scores.index) == set(wanted)
    for name, (mean, uniform) in wanted.items():
        np.testing.assert_allclose(scores["mean"][name], mean, atol=tolerance, rtol=tolerance, err_msg=name)
        np.testing.assert_allclose(scores["uniform"][name], uniform, atol=tolerance, rtol=tolerance, err_msg=name)
    patterns, share = expected.name()
    found = report.name(layer, head)
    np.testing.assert_allclose(found.share, share, atol=2 * tolerance)
    np.testing.assert_allclose(expected.explained(*found.patterns), share, atol=2 * tolerance)
    assert len(found.patterns) == len(patterns)
    assert (found.words == "mixed") == (share < 0.5)
