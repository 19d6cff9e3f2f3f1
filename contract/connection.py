"""Redis access: the client, the Lua scripts, and the translation of its errors into ours."""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from typing import cast

import redis
from redis.backoff import ExponentialBackoff
from redis.commands.core import Script
from redis.connection import AbstractConnection
from redis.driver_info import DriverInfo
from redis.exceptions import AskError, ClusterCrossSlotError, ClusterError, InvalidResponse
from redis.retry import Retry

from contract import address, keys
from contract.errors import LedgerError, RedisUnreachable, WritesRefused
from contract.settings import Settings

__all__ = [
    "connect",
    "connect_hurried",
    "lua",
    "place_of",
    "refusal",
    "refused",
    "translating",
    "try_writing",
    "why_no_writes",
]

_PRIMARY = "Make it the primary (REPLICAOF NO ONE), or start all with the primary's MCQUEUE_REDIS_URL"
#: How Redis answers a client without a password: to a command, and to the client's own first one.
WANTS_PASSWORD = ("Authentication required", "HELLO must be called")
#: Prometheus and probes wait for five seconds or less; by then they must have been told that Redis does not answer.
HURRIED_TIMEOUT_S = 2.0
#: What OpenSSL's errors begin with: something answers, but one side does not accept what the other says it is.
TLS_ERROR = "[SSL: "
#: The network does not reach the host, whether or not a Redis runs there.
_NO_WAY = {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ETIMEDOUT}
#: How redis-py calls it if packets to the host are dropped.
_IN_VAIN = "Timeout connecting"
#: How a Redis without TLS looks to a client that wants it, and …
_NO_TLS = (_IN_VAIN, "WRONG_VERSION_NUMBER")
#: … how one that wants it, to a client without. One that was stopped looks like this, too.
_HANGS_UP = ("Connection closed by server", os.strerror(errno.ECONNRESET))
_CHECK_ADDRESS = "Check the address in MCQUEUE_REDIS_URL, and the way there: name server, firewall, VPN."
#: First word of a Redis error that persists until its cause is fixed → the cause, and the remedy.
_REFUSALS = {
    "OOM": ("it is at its memory limit", "Raise maxmemory, or export and purge old runs"),
    "MISCONF": ("it cannot write to its disk", "Free space on Redis' disk; its log has the details"),
    "READONLY": ("it is a replica", _PRIMARY),
    "UNBLOCKED": ("it became a replica", _PRIMARY),
    "MASTERDOWN": ("it is a replica that has lost its primary", _PRIMARY),
    "NOREPLICAS": ("it has too few replicas", "Bring them back, or lower min-replicas-to-write"),
    "BUSY": ("a script keeps it busy", "Wait for it, or stop it: SCRIPT KILL"),
}
_TLS_REMEDY = (
    "Renew its certificate if that has expired. MCQUEUE_REDIS_URL must name the host as the certificate does, and its "
    "CA (?ssl_ca_certs=FILE); if it asks for a certificate, also ssl_certfile and ssl_keyfile."
)
#: Major and minor version of the first one that has all commands of `contract/lua`, such as SMISMEMBER. Valkey began as
#: a later one.
_OLDEST = (6, 2)
_VERSION = re.compile(r"(\d+)\.(\d+)")
_TOO_OLD = "mcqueue needs Redis 6.2 or newer, or Valkey: install one, or start it with `make redis`."
#: Commands that a host may disable, and without which something fails later: a transaction, a script, a worker.
_NEEDED = ("BRPOP", "EVALSHA", "EXEC", "MULTI", "SCRIPT", "TIME")
_UNKNOWN_COMMAND = (
    "If it is a Sentinel, MCQUEUE_REDIS_URL must be the primary's address. If its host has disabled that command "
    "(rename-command), mcqueue cannot use it."
)
#: redis-py and server-side scripts put their own words before it.
_FIRST_WORD = re.compile(rf"(?:^|: -?)({'|'.join(_REFUSALS)}) ")


class _AnyAnswer(AbstractConnection):
    """Takes any answer to PING for a sign of life: with a full disk, Redis refuses it like a write (MISCONF).

    Without an answer, neither PING nor connecting is repeated: every command is, and each repetition would be
    multiplied.
    """

    def check_health(self) -> None:
        if self.health_check_interval and time.monotonic() > self.next_health_check:
            with suppress(redis.ResponseError):  # the command that follows gets its own answer
                self.send_command("PING", check_health=False)  # type: ignore[no-untyped-call]
                self.read_response()

    def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:  # noqa: ARG002
        """Connect once, for the same reason: where a host vanished, a command that renews its connection took 65 s."""
        super().connect_check_health(check_health, retry_socket_connect=False)


class _Plain(_AnyAnswer, redis.Connection):
    pass


class _Encrypted(_AnyAnswer, redis.SSLConnection):
    pass


def connect(settings: Settings, timeout_s: float = 5.0, retries: int = 3) -> redis.Redis:
    """Return a Redis client after Redis has answered a ping. Raises LedgerError.

    While nothing answers, an attempt at a command fails after `timeout_s`, and is repeated `retries` times.
    """
    url = settings.redis_url.get_secret_value()
    if unreadable := address.unreadable_file(url):
        raise LedgerError(f"MCQUEUE_REDIS_URL names a file that cannot be read: {unreadable}.")
    client = redis.Redis.from_url(
        url,
        connection_class=_Encrypted if url.startswith("rediss://") else _Plain,
        decode_responses=True,
        encoding_errors="replace",  # we write UTF-8; data written by others must not crash a reader
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        socket_keepalive=True,
        health_check_interval=10,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), retries=retries),
        # Made once: each connection would read redis-py's version from its files, and one that cannot, as too many are
        # open, keeps its place among the hundred of the pool for ever.
        driver_info=DriverInfo(),
    )
    try:
        with translating(client):
            _ping(client)
    except LedgerError:
        client.close()
        raise
    return client


def _ping(client: redis.Redis) -> None:
    """Ask whether Redis answers. One whose disk is full refuses PING, but no command that reads.

    Raises LedgerError if it is too old or lacks commands: they would fail later, one by one.
    """
    try:
        client.ping()
    except redis.ResponseError as answer:
        if refusal(answer) != "MISCONF":
            raise
    connection = client.connection_pool.get_connection()
    version = cast("dict[str, str]", connection.handshake_metadata).get("version", "")
    client.connection_pool.release(connection)
    found = _VERSION.match(version)  # servers that only resemble Redis may have versions of another kind
    if found and (int(found[1]), int(found[2])) < _OLDEST:
        raise LedgerError(f"Redis at {place_of(client)} is too old, version {version}.", hint=_TOO_OLD)
    _refuse_disabled(client)


def _refuse_disabled(client: redis.Redis) -> None:
    """Raise LedgerError if one of the needed commands is missing. A Redis that does not say which it has passes."""
    with suppress(redis.ResponseError):  # also from a proxy, or for a user who may not ask
        found = client.execute_command("COMMAND INFO", *_NEEDED)  # type: ignore[no-untyped-call]
        known = found if isinstance(found, list) else _NEEDED  # proxies may answer anything
        if missing := ", ".join(name for name, info in zip(_NEEDED, known, strict=False) if not info):
            raise LedgerError(f"Redis at {place_of(client)} has no command {missing}.", hint=_UNKNOWN_COMMAND)


def connect_hurried(settings: Settings) -> redis.Redis:
    """Return a client whose commands soon fail while nothing answers, for whoever watches. Raises LedgerError."""
    return connect(settings, HURRIED_TIMEOUT_S, retries=0)


def lua(client: redis.Redis, name: str) -> Script:
    """Return the atomic script `contract/lua/<name>.lua`."""
    text = resources.files("contract").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    return client.register_script(text)


def place_of(client: redis.Redis) -> str:
    """Return the URL of the client's Redis for messages, like `address.place`."""
    pool = client.connection_pool
    known = pool.connection_kwargs
    scheme = "rediss" if issubclass(pool.connection_class, redis.SSLConnection) else "redis"
    port = f":{known['port']}" if "port" in known else ""
    number = f"/{known['db']}" if "db" in known else ""
    return f"{scheme}://{address.before_port(known.get('host', ''))}{port}{number}"


@contextmanager
def translating(client: redis.Redis) -> Iterator[None]:
    """Translate the errors of redis-py's `client` into ours."""
    try:
        yield
    except (redis.RedisError, OSError) as trouble:
        raise _ours(trouble, place_of(client)) from None


def _ours(trouble: redis.RedisError | OSError, place: str) -> LedgerError:
    if isinstance(trouble, redis.AuthenticationError):
        why = str(trouble).rstrip(".")
        if why.startswith(WANTS_PASSWORD):
            why = "it wants a password, as in redis://:PASSWORD@HOST:PORT/0"
        return LedgerError(f"Redis at {place} refuses the credentials: {why}.", hint="Check MCQUEUE_REDIS_URL.")
    if found := refused(trouble, f"Redis at {place}"):
        return found
    if isinstance(trouble, InvalidResponse):
        hint = "Set MCQUEUE_REDIS_URL to the host and port of a Redis."
        return LedgerError(f"What answers at {place} is no Redis ({trouble}).", hint=hint)
    if isinstance(trouble, (AskError, ClusterCrossSlotError, ClusterError)):
        hint = "Use a single server, with replicas or without, or a service with cluster mode disabled."
        return LedgerError(
            f"Redis at {place} is part of a Redis Cluster ({trouble}), which mcqueue cannot use.", hint=hint
        )
    if isinstance(trouble, redis.BusyLoadingError):
        hint = "Wait until it has. Workers then continue by themselves."
        return RedisUnreachable(f"Redis at {place} was started and is still loading its data.", hint=hint)
    if isinstance(trouble, (redis.ConnectionError, redis.TimeoutError, OSError)):
        return RedisUnreachable(f"No Redis answers at {place} ({trouble}).", hint=_remedy_for_silence(trouble, place))
    what, *_ = str(trouble).split(", with args beginning with")
    return LedgerError(f"Redis at {place} refuses: {what}.", hint=_remedy_for_refused(what))


def _remedy_for_refused(what: str) -> str:
    if what.startswith("unknown command `HELLO`"):  # that of the client itself, which came with Redis 6
        return _TOO_OLD
    return _UNKNOWN_COMMAND if what.startswith("unknown command") else ""


def _remedy_for_silence(trouble: redis.RedisError | OSError, place: str) -> str:
    """Return what to do where nothing answers; redis-py raises its error while it handles that of the socket."""
    cause = trouble.__context__ or trouble
    is_encrypted = place.startswith("rediss://")
    if is_encrypted and any(each in str(trouble) for each in _NO_TLS):
        return f"{_CHECK_ADDRESS} If it has no TLS, that begins with redis://."
    if TLS_ERROR in str(trouble):
        return _TLS_REMEDY
    if os.strerror(errno.EMFILE) in str(trouble):
        return "Let this process open more files at a time: ulimit -n."
    if isinstance(cause, socket.gaierror) or getattr(cause, "errno", None) in _NO_WAY or _IN_VAIN in str(trouble):
        return _CHECK_ADDRESS
    if not is_encrypted and any(each in str(trouble) for each in _HANGS_UP):
        return "Start one, or set MCQUEUE_REDIS_URL to another; if it wants TLS, that begins with rediss://."
    return "Start one, or set MCQUEUE_REDIS_URL to another."


def refusal(trouble: BaseException) -> str:
    """Return the error code, e.g. `MISCONF`, if Redis temporarily refuses writes; else an empty string."""
    if (word := getattr(trouble, "status_code", None)) in _REFUSALS:
        return str(word)
    found = _FIRST_WORD.search(str(trouble))
    return found[1] if found else ""


def refused(trouble: BaseException, who: str) -> WritesRefused | None:
    """Return a refusal of writes as our error, with the remedy; None for any other error."""
    if not (word := refusal(trouble)):
        return None
    what, remedy = _REFUSALS[word]
    hint = f"{remedy}. Workers then continue by themselves; repeat a command that stopped."
    return WritesRefused(f"{who} refuses writes: {what} ({word}).", hint=hint)


def try_writing(client: redis.Redis) -> None:
    """Write a key that expires after a second. Raises redis-py's error if Redis refuses writes."""
    client.set(keys.trial(), "", ex=1)


def why_no_writes(client: redis.Redis) -> WritesRefused | None:
    """Return why Redis refuses writes at the moment; None if it accepts them. Raises LedgerError."""
    try:
        with translating(client), suppress(redis.exceptions.NoPermissionError):  # a read-only user
            try_writing(client)
    except WritesRefused as trouble:
        return trouble
    return None
