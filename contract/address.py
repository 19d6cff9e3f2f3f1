"""Where Redis is: a URL that holds a password, taken apart without ever showing one.

    redis://[user:password@]host[:port][/number]
    rediss://…[?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE&ssl_cert_reqs=required|none]     over TLS

redis-py and kombu read the same URL and differ: kombu takes a `rediss://` without options for one that may be answered
by anybody. Here the server's certificate is checked unless the URL says otherwise.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

__all__ = ["before_port", "check", "facing", "place", "tls"]

SCHEMES = ("redis", "rediss")
CERT_REQS = {"required": ssl.CERT_REQUIRED, "none": ssl.CERT_NONE}
FILES = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})


def check(url: str) -> None:
    """Raises ValueError that says what is wrong, and quotes nothing that may be a piece of the password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its message would show what it took for a host or port
        parts, port = None, None
    if parts is not None and parts.scheme not in SCHEMES:
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
    """The URL without user name, password and options: fit for a message."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{before_port(parts.hostname or '')}{port}{parts.path}"


def before_port(host: str) -> str:
    """`host` as a port may follow it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def tls(url: str) -> dict[str, Any] | None:
    """kombu's `ssl` for the URL; None without TLS."""
    parts = urlsplit(url)
    if parts.scheme != "rediss":
        return None
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    return {**options, "ssl_cert_reqs": CERT_REQS[options.get("ssl_cert_reqs", "required")]}


def facing(url: str) -> str:
    """This host's address on the way to Redis: where whoever reaches Redis will mostly reach this host too.

    A host's name may mean nothing elsewhere, as that of a container does. Where Redis is on this very host, or its name
    cannot be resolved now, the host's name is all there is to say.
    """
    parts = urlsplit(url)
    try:
        family, kind, protocol, _, there = socket.getaddrinfo(
            parts.hostname, parts.port or 6379, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(there)  # of a datagram socket: it chooses the way, and sends nothing
            address = ipaddress.ip_address(probe.getsockname()[0])
    except (OSError, ValueError):
        return socket.gethostname()
    return socket.gethostname() if address.is_loopback else str(address)
