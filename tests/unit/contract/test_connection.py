"""What Redis answers while it takes no writes, told apart from refusals that no waiting mends."""

from __future__ import annotations

import errno
import socket
import socketserver
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from pydantic import SecretStr

from contract import address
from contract.connection import connect, place_of, translating
from contract.errors import LedgerError, RedisUnreachable, WritesRefused
from contract.settings import Settings

HERE = redis.Redis.from_url("redis://here")
#: As Valkey 9.1 and redis-py 8.1 have them.
FOR_NOW = [
    (redis.OutOfMemoryError("command not allowed when used memory > 'maxmemory'.", status_code="OOM"), "OOM"),
    (redis.ReadOnlyError("You can't write against a read only replica.", status_code="READONLY"), "READONLY"),
    (redis.exceptions.MasterDownError("Link with MASTER is down.", status_code="MASTERDOWN"), "MASTERDOWN"),
    (redis.ResponseError("MISCONF Valkey is configured to save RDB snapshots, but cannot."), "MISCONF"),
    (redis.ResponseError("NOREPLICAS Not enough good replicas. script: on @user_script:1."), "NOREPLICAS"),
    (redis.ResponseError("Command # 1 (ZREM z a) of pipeline caused error: NOREPLICAS Not enough."), "NOREPLICAS"),
    (redis.ResponseError("UNBLOCKED force unblock from blocking operation, instance state changed"), "UNBLOCKED"),
    (redis.ResponseError("BUSY Valkey is busy running a script. You can only call SCRIPT KILL."), "BUSY"),
    (
        redis.exceptions.ExecAbortError("Transaction discarded because of: MISCONF Errors.", status_code="EXECABORT"),
        "MISCONF",
    ),
    # Redis 6, of what a script was refused
    (redis.ResponseError("Error running script: @user_script: 1: -READONLY You can't write."), "READONLY"),
]
FOR_GOOD = [
    redis.exceptions.NoPermissionError("User w has no permissions to run the 'set' command", status_code="NOPERM"),
    redis.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
    redis.ResponseError("Command # 1 (SET MISCONF READONLY) of pipeline caused error: WRONGTYPE Operation"),
    redis.ResponseError("unknown command"),
]


#: Of a Redis Cluster: a command or script on keys of several slots, a key of another node, and slots without a node.
CLUSTERED = [
    redis.exceptions.ClusterCrossSlotError("Keys in request don't hash to the same slot"),
    redis.exceptions.MovedError("8000 10.0.0.2:6379"),
    redis.exceptions.ClusterDownError("Hash slot not served"),
]


@pytest.mark.parametrize(
    "url",
    [
        "redis://here",
        "redis://user:secret@127.0.0.1:6380/2",
        "rediss://:secret@[::1]:6379/0?ssl_cert_reqs=none",
    ],
)
def test_a_client_is_told_by_its_url_without_secrets_and_options(url: str) -> None:
    assert place_of(redis.Redis.from_url(url)) == address.place(url)


def test_the_error_of_a_client_without_a_host_is_told_as_any_other() -> None:
    with pytest.raises(RedisUnreachable), translating(redis.Redis(unix_socket_path="/none.sock")):
        raise redis.ConnectionError("No such file or directory")


def test_too_many_open_files_are_told_as_such() -> None:
    """Redis was to be started."""
    with pytest.raises(RedisUnreachable, match="ulimit -n"), translating(HERE):
        raise redis.ConnectionError("Error 24 connecting to here:6379. Too many open files.")


@pytest.mark.parametrize(("answer", "word"), FOR_NOW, ids=lambda each: str(each)[:40])
def test_what_waiting_can_mend_is_told_with_its_remedy_and_can_be_tried_again(answer: Exception, word: str) -> None:
    with pytest.raises(WritesRefused) as caught, translating(HERE):
        raise answer
    assert caught.value.retryable
    assert caught.value.message.startswith("Redis at redis://here refuses writes: ")
    assert caught.value.message.endswith(f" ({word}).")
    assert "Workers then continue by themselves" in caught.value.hint


@pytest.mark.parametrize("answer", FOR_GOOD, ids=lambda each: str(each)[:40])
def test_what_no_waiting_mends_is_no_such_refusal(answer: Exception) -> None:
    with pytest.raises(LedgerError) as caught, translating(HERE):
        raise answer
    assert not caught.value.retryable
    assert str(answer) in str(caught.value)


@pytest.mark.parametrize("answer", CLUSTERED, ids=lambda each: type(each).__name__)
def test_a_redis_cluster_is_told_as_what_cannot_be_used(answer: Exception) -> None:
    with pytest.raises(LedgerError) as caught, translating(HERE):
        raise answer
    assert not caught.value.retryable
    assert "Redis at redis://here is part of a Redis Cluster" in caught.value.message
    assert "a single server" in caught.value.hint


def test_who_names_a_sentinel_is_told_what_to_name_instead() -> None:
    """It answers as any Redis does, and knows no command of ours."""
    found = r"refuses: unknown command .* Sentinel, .* the primary's address"
    with pytest.raises(LedgerError, match=found), translating(HERE):
        raise redis.ResponseError("unknown command 'ZREVRANGE', with args beginning with: 'mcqueue:runs' '0' ")


def test_a_command_that_a_hosting_service_disabled_is_named_without_what_it_was_given() -> None:
    """Two lines of a script's hash and keys were told, and then of a Sentinel only."""
    with pytest.raises(LedgerError) as caught, translating(HERE):
        raise redis.ResponseError("unknown command 'EVALSHA', with args beginning with: '31482d23' '4' 'mcqueue:runs' ")
    assert caught.value.message == "Redis at redis://here refuses: unknown command 'EVALSHA'."
    assert "disabled that command" in caught.value.hint


@pytest.mark.parametrize("first", ["<", "S", "E", "\x15"], ids=["HTTP", "SSH", "PostgreSQL", "TLS"])
def test_another_program_at_that_port_is_told_as_such_and_not_as_a_redis_that_refuses(first: str) -> None:
    with pytest.raises(LedgerError) as caught, translating(HERE):
        raise redis.InvalidResponse(f'Protocol error, got "{first}" as reply type byte')
    assert caught.value.message.startswith("What answers at redis://here is no Redis (Protocol error")
    assert "MCQUEUE_REDIS_URL" in caught.value.hint
    assert not caught.value.retryable


class Greeting(socketserver.StreamRequestHandler):
    """A Redis of this version, which says so when a client greets it, and nothing else."""

    version = "7.0.15"
    clients = 0
    commands = "+OK"

    def handle(self) -> None:
        Greeting.clients += 1
        while head := self.rfile.readline():
            command = [(self.rfile.readline(), self.rfile.readline())[1].strip() for _ in range(int(head[1:]))]
            said = f"%2\r\n$7\r\nversion\r\n+{self.version}\r\n$5\r\nproto\r\n:3\r\n"
            answers = {b"HELLO": said, b"COMMAND": f"{self.commands}\r\n"}
            self.wfile.write(answers.get(command[0], "+OK\r\n").encode())


@pytest.mark.parametrize(
    ("version", "is_taken"),
    [("6.0.16", False), ("5.0.14", False), ("6.2.14", True), ("10.0.1", True), ("df-v1.30.3", True)],
)
def test_a_redis_that_lacks_commands_is_refused_at_once(
    version: str, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ubuntu 22.04 has 6.0: questions were enqueued, and workers ended in a traceback."""
    monkeypatch.setattr(Greeting, "version", version)
    monkeypatch.setattr(Greeting, "clients", 0)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeting) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        settings = Settings(redis_url=SecretStr(f"redis://127.0.0.1:{server.server_address[1]}/0"))
        try:
            if is_taken:
                client = connect(settings)
                client.ping()
                client.close()
                assert Greeting.clients == 1, "the connection that was asked for the version is used again"
            else:
                with pytest.raises(LedgerError, match=rf"too old, version {version}\. .* needs Redis 6\.2") as caught:
                    connect(settings)
                assert not caught.value.retryable
        finally:
            server.shutdown()


@pytest.mark.parametrize("said", ["-NOPERM this user has no permissions to run it", "_", "*-1", ":241", "*0", "%0"])
def test_a_redis_that_does_not_say_which_commands_it_has_is_taken(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As proxies and rules for users may have it."""
    monkeypatch.setattr(Greeting, "commands", said)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeting) as server:
        server.daemon_threads = True  # a client that is refused may not have hung up
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            connect(Settings(redis_url=SecretStr(f"redis://127.0.0.1:{server.server_address[1]}/0"))).close()
        finally:
            server.shutdown()


def test_who_names_a_redis_that_clients_cannot_greet_is_told_that_it_is_too_old() -> None:
    with pytest.raises(LedgerError, match=r"needs Redis 6\.2 or newer"), translating(HERE):
        raise redis.ResponseError("unknown command `HELLO`, with args beginning with: `3`, ")


def test_a_redis_that_got_a_password_says_so_and_not_how_clients_greet_it() -> None:
    """The answer to HELLO was told, with 200 characters about its arguments."""
    for answer in (
        "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> "
        "option can be used to authenticate the client and select the RESP protocol version at the same time",
        "Authentication required.",
    ):
        with pytest.raises(LedgerError) as caught, translating(HERE):
            raise redis.AuthenticationError(answer)
        wanted = "it wants a password, as in redis://:PASSWORD@HOST:PORT/0"
        assert caught.value.message == f"Redis at redis://here refuses the credentials: {wanted}."


def test_a_redis_that_loads_its_data_is_to_be_waited_for_and_not_to_be_started() -> None:
    with pytest.raises(RedisUnreachable) as caught, translating(HERE):
        raise redis.BusyLoadingError("Valkey is loading the dataset in memory")
    assert caught.value.retryable
    assert caught.value.message == "Redis at redis://here was started and is still loading its data."
    assert caught.value.hint.startswith("Wait until it has")


def test_a_redis_that_takes_connections_and_says_nothing_is_asked_as_often_as_is_said() -> None:
    """Each repetition was itself repeated: a command was silent for 85 s."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = SecretStr(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        with pytest.raises(RedisUnreachable):
            connect(Settings(redis_url=url), timeout_s=0.05, retries=3)
        silent.settimeout(0.05)
        asked = 0
        with suppress(TimeoutError):
            while True:
                silent.accept()[0].close()
                asked += 1
    assert asked == 4


def test_a_command_connects_again_only_as_often_as_it_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where packets to a vanished host are dropped, `watch` said nothing for 65 s."""
    monkeypatch.setattr("contract.connection._ping", lambda _: None)
    client = connect(Settings(redis_url=SecretStr("redis://127.0.0.1:1/0")), timeout_s=0.05, retries=3)
    connection = client.connection_pool.make_connection()
    asked: list[float] = []

    def unanswered() -> None:
        asked.append(time.monotonic())
        raise TimeoutError

    monkeypatch.setattr(connection, "_connect", unanswered)
    with pytest.raises(redis.TimeoutError):
        connection.send_command("PING")  # type: ignore[no-untyped-call]
    assert len(asked) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        "Error 1 connecting to h:6380. [SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired",
        "Error while reading from h:6380 : (1, '[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert",
    ],
)
def test_a_certificate_that_is_not_accepted_is_no_server_to_start(trouble: str) -> None:
    with pytest.raises(RedisUnreachable) as caught, translating(HERE):
        raise redis.ConnectionError(trouble)
    assert trouble in caught.value.message
    assert "ssl_ca_certs=FILE" in caught.value.hint
    assert "Start one" not in caught.value.hint


@pytest.mark.parametrize(
    ("url", "trouble", "right"),
    [
        ("rediss://here", redis.TimeoutError("Timeout connecting to server"), "begins with redis://."),
        ("rediss://here", redis.ConnectionError("[SSL: WRONG_VERSION_NUMBER] wrong version number"), " redis://."),
        ("redis://here", redis.ConnectionError("Connection closed by server."), "begins with rediss://."),
        ("redis://here", redis.ConnectionError("(104, 'Connection reset by peer')"), "begins with rediss://."),
        ("rediss://here", redis.ConnectionError("Connection closed by server."), "MCQUEUE_REDIS_URL to another."),
    ],
)
def test_where_one_side_may_want_tls_and_the_other_not_the_right_url_is_named(
    url: str, trouble: Exception, right: str
) -> None:
    """A Redis without TLS waits for the end of a greeting in it: firewalls and name servers were blamed."""
    with pytest.raises(RedisUnreachable) as caught, translating(redis.Redis.from_url(url)):
        raise trouble
    assert caught.value.hint.endswith(right)


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        (OSError(errno.EHOSTUNREACH, "No route to host"), "the way there: name server, firewall, VPN."),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "the way there: name server, firewall, VPN."),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "the way there: name server, firewall, VPN."),
        (TimeoutError(), "the way there: name server, firewall, VPN."),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "Start one, or set MCQUEUE_REDIS_URL"),
    ],
)
def test_where_the_network_does_not_reach_the_host_nobody_is_told_to_start_a_server(
    monkeypatch: pytest.MonkeyPatch, cause: OSError, remedy: str
) -> None:
    def connecting(*_: object) -> None:
        raise cause

    monkeypatch.setattr(redis.Connection, "_connect", connecting)
    with pytest.raises(RedisUnreachable) as caught:
        connect(Settings(redis_url=SecretStr("redis://there:6379/0")), retries=0)
    assert remedy in caught.value.hint


def test_a_file_of_the_url_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """It was "Error 2 connecting to h:1. No such file or directory", with the advice to start a server."""
    missing = tmp_path / "ca.pem"
    with pytest.raises(LedgerError) as caught:
        connect(Settings(redis_url=SecretStr(f"rediss://u:secret@h:1/0?ssl_ca_certs={missing}")))
    wanted = f"MCQUEUE_REDIS_URL names a file that cannot be read: ssl_ca_certs={missing} (No such file or directory)."
    assert caught.value.message == wanted
    assert not caught.value.retryable
