"""Keeping the latest: what was made for a key stays until so many others were asked for after it."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

Owner = TypeVar("Owner")
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Latest(Generic[Key, Value]):
    """Values by key, of which the `most` that were asked for last are kept. Safe to be used by any thread.

    nbytes: what a value takes; where all that is kept takes more than `most_bytes`, the oldest go, the newest never.
    Values are made one at a time, and room is made before: no more than `most` are ever in memory, as far as it is up
    to this; what somebody still holds stays. Meanwhile what is kept can be had without waiting.
    """

    def __init__(self, most: int, *, most_bytes: float = float("inf"), nbytes: Callable[[Value], int] = lambda _: 0):
        self._most, self._most_bytes, self._nbytes = most, most_bytes, nbytes
        self._kept: dict[Key, Value] = {}  # the one that was asked for last stands last
        self._lock, self._making = threading.Lock(), threading.Lock()

    @property
    def keys(self) -> tuple[Key, ...]:
        """What is kept, the one that was asked for last at the end."""
        return tuple(self._kept)

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of this key, made where it is not kept; what `make` raises is raised here, and nothing is kept."""
        found = self._found(key)
        if not found:
            with self._making:
                found = self._found(key)  # somebody else may have made it meanwhile
                if not found:
                    self._leave(self._most - 1)
                    found = [make()]
                    self._put(key, found[0])
        return found[0]

    def forget(self, key: Key) -> None:
        """Let go of the value of this key, if it is kept."""
        with self._lock:
            self._kept.pop(key, None)

    def _found(self, key: Key) -> list[Value]:
        """The value, which is now the latest; empty where there is none."""
        with self._lock:
            if key not in self._kept:
                return []
            self._kept[key] = value = self._kept.pop(key)
            return [value]

    def _leave(self, most: int) -> None:
        """Keep no more than so many."""
        with self._lock:
            while len(self._kept) > most:
                del self._kept[next(iter(self._kept))]

    def _put(self, key: Key, value: Value) -> None:
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > 1 and sum(map(self._nbytes, self._kept.values())) > self._most_bytes:
                del self._kept[next(iter(self._kept))]


class LatestOfEach(Generic[Owner, Key, Value]):
    """Values by owner and key: of each owner the `most` that were asked for last. Safe to be used by any thread.

    They go when the owner goes, so a value must not hold it.
    """

    def __init__(self, most: int):
        self._most, self._lock = most, threading.Lock()
        self._kept: WeakKeyDictionary[Owner, Latest[Key, Value]] = WeakKeyDictionary()

    def holds(self, owner: Owner, key: Key) -> bool:
        """Whether the value is there, so that `get` takes no time."""
        return key in self._of(owner)

    def get(self, owner: Owner, key: Key, make: Callable[[], Value]) -> Value:
        """The value of this key, made where it is not kept, see `Latest`."""
        return self._of(owner).get(key, make)

    def _of(self, owner: Owner) -> Latest[Key, Value]:
        with self._lock:
            return self._kept.setdefault(owner, Latest(self._most))
