"""The Redis URL: validation and parsing without ever revealing its password.

    redis://[user:password@]host[:port][/number]
    rediss://…[?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE&ssl_cert_reqs=required|none]     over TLS

redis-py and kombu interpret the same URL differently: for a `rediss://` without options, kombu does not verify the
server at all. Here the server's certificate is verified unless the URL says otherwise.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

__all__ = ["before_port", "check", "facing", "is_public", "place", "tls", "unreadable_file"]

SCHEMES = ("redis:", "rediss:")
CERT_REQS = {"required": ssl.CERT_REQUIRED, "none": ssl.CERT_NONE}
FILES = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})


def check(url: str) -> None:
    """Validate the URL. Raises ValueError that quotes nothing that may be part of the password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its message would show what it parsed as host or port
        parts, port = None, None
    if parts is not None and "sentinel" in parts.scheme:
        raise ValueError("expected redis:// or rediss:// with the primary's address; Sentinels are not asked for it")
    if parts is not None and not url.startswith(SCHEMES):  # redis-py takes no capitals
        raise ValueError(f"expected redis:// or rediss://, found {'another' if '://' in url else 'no'} scheme")
    if parts is None or not parts.hostname or port == 0 or not re.fullmatch(r"(/\d{0,9})?", parts.path, re.ASCII):
        raise ValueError(
            "expected redis://user:password@host:port/number; in a password write %2F for /, %23 for #, %3F for ?"
        )
    if parts.fragment:
        raise ValueError("expected nothing after a #; in a password write %23 for it")
    _check_options(parts)


def _check_options(parts: SplitResult) -> None:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = FILES | {"ssl_cert_reqs"} if parts.scheme == "rediss" else frozenset[str]()
    if not options.keys() <= known:
        raise ValueError(f"the only options after a ? are, with rediss://, {', '.join(sorted(FILES))}, ssl_cert_reqs")
    if options.get("ssl_cert_reqs", "required") not in CERT_REQS:
        raise ValueError(f"ssl_cert_reqs: expected one of {', '.join(CERT_REQS)}")


def place(url: str) -> str:
    """Return the URL without user name, password and options, for messages."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{before_port(parts.hostname or '')}{port}{parts.path}"


def is_public(url: str) -> bool:
    """Whether the URL has no user name, password or options, so that messages may show all of it."""
    try:
        return place(url) == url
    except ValueError:  # of a port that is none
        return False


def before_port(host: str) -> str:
    """Return `host` so that a port can be appended: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def tls(url: str) -> dict[str, Any] | None:
    """Return kombu's `ssl` option for the URL; None without TLS."""
    parts = urlsplit(url)
    if parts.scheme != "rediss":
        return None
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    return {**options, "ssl_cert_reqs": CERT_REQS[options.get("ssl_cert_reqs", "required")]}


def unreadable_file(url: str) -> str:
    """Return which of the URL's files cannot be read, and why; an empty string if all can."""
    for option, file in parse_qsl(urlsplit(url).query):
        if option in FILES:
            try:
                Path(file).open("rb").close()
            except OSError as trouble:
                return f"{option}={file} ({trouble.strerror})"
    return ""


def facing(url: str) -> str:
    """Return the address of this host's interface towards Redis, which hosts that reach Redis can usually reach too.

    A host name may not resolve elsewhere, e.g. that of a container. It is only the fallback if Redis is on this very
    host or its name cannot be resolved.
    """
    parts = urlsplit(url)
    try:
        family, kind, protocol, _, there = socket.getaddrinfo(
            parts.hostname, parts.port or 6379, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(there)  # on a datagram socket this selects the route and sends nothing
            address = ipaddress.ip_address(probe.getsockname()[0])
    except (OSError, ValueError):
        return socket.gethostname()
    return socket.gethostname() if address.is_loopback else str(address)
