"""The settings of a server that others may visit: environment variables, read here and nowhere else.

    VIZ_SHARE     the names under which visitors reach it, such as "lab.example.edu, 192.168.1.20"; without one it is
                  for its own computer alone
    VIZ_VISITORS  what visitors may do besides looking at the models that are here: folders, fetch, keep, remove
    VIZ_FRAMES    whose pages may show it in a frame: "https://slides.example.edu", "self", or "file:" for a file

This module brings nothing of the model along, since the server reads it before it answers.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address

FOLDERS, FETCH, KEEP, REMOVE = "folders", "fetch", "keep", "remove"
ACTS = {
    FOLDERS: "open folders",
    FETCH: "fetch models",
    KEEP: "keep trained models",
    REMOVE: "remove models",
}

OWN_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})  # of every computer, for whoever sits at it

_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_FRAME = re.compile(rf"(self|file:|https?://(\*\.)?{_LABEL}(\.{_LABEL})*(:\d{{1,5}})?)")


class SettingError(Exception):
    """A setting that says nonsense: a sentence with the variable's name and what it may be."""


@dataclass(frozen=True)
class Sharing:
    """names: of the server, as visitors type them. acts: what they may do. frames: whose pages may frame it, as a
    Content-Security-Policy writes them."""

    names: frozenset[str] = frozenset()
    acts: frozenset[str] = frozenset()
    frames: tuple[str, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether there are visitors. If not, whoever looks has started the server, and may do everything."""
        return bool(self.names)

    def may(self, act: str) -> bool:
        """Whether whoever looks may do this, one of `ACTS`."""
        return not self.is_on or act in self.acts

    def answers_to(self, name: str) -> bool:
        """Whether this is a name of the server."""
        return name in OWN_NAMES or name in self.names

    @property
    def frame_ancestors(self) -> str:
        """The directive that tells a browser whose pages may frame this one."""
        return " ".join(("frame-ancestors", *(self.frames or ("'none'",))))


@cache
def sharing() -> Sharing:
    """The settings of this server; raises SettingError."""
    return read(os.environ)


def read(environment: Mapping[str, str]) -> Sharing:
    """The settings that these variables say; raises SettingError."""
    names, acts, frames = (_words(environment, name) for name in ("VIZ_SHARE", "VIZ_VISITORS", "VIZ_FRAMES"))
    for act in acts:
        if act not in ACTS:
            raise SettingError(f"VIZ_VISITORS says {act!r}. What visitors may be allowed is: {', '.join(ACTS)}.")
    if acts and not names:
        raise SettingError(
            "VIZ_VISITORS says what visitors may do, but there are none: VIZ_SHARE names no host. Set VIZ_SHARE to the "
            "names under which visitors reach this server, or leave VIZ_VISITORS out."
        )
    for frame in frames:
        if not _FRAME.fullmatch(frame):
            raise SettingError(
                f"VIZ_FRAMES says {frame!r}. Give the beginning of an address, such as https://slides.example.edu, or "
                "self, or file: for a file that is opened in the browser."
            )
    return Sharing(
        frozenset(map(_host, names)),
        frozenset(acts),
        tuple("'self'" if frame == "self" else frame for frame in frames),
    )


def refuse_unnamed(address: str | None, settings: Sharing) -> None:
    """Raises SettingError where the server listens for others, and no setting names it."""
    if not settings.is_on and (address or "0.0.0.0") not in OWN_NAMES:
        raise SettingError(
            f"The server would listen for other computers ({address or 'no address is set'}), but VIZ_SHARE does not "
            "say under which name they reach it. Set VIZ_SHARE to that name, such as lab.example.edu or 192.168.1.20, "
            "or leave --server.address out."
        )


def _words(environment: Mapping[str, str], name: str) -> list[str]:
    return environment.get(name, "").replace(",", " ").lower().split()


def _host(name: str) -> str:
    """A host's name or address, as a browser writes it into the address bar, without brackets."""
    try:
        ip = ip_address(name.strip("[]"))
    except ValueError:
        if _HOST.fullmatch(name) and not name.replace(".", "").isdigit():
            return name
        raise SettingError(
            f"VIZ_SHARE says {name!r}, which is no host. Give the name that visitors type, such as lab.example.edu or "
            "192.168.1.20, without http:// and without a port."
        ) from None
    if ip.is_unspecified:
        raise SettingError(
            f"VIZ_SHARE says {name}, which stands for all addresses of this computer. Visitors cannot type it. "
            "Give the address of this computer in its network, such as 192.168.1.20."
        )
    return str(ip)
