"""The URL of Redis: what of it may be shown, and what it says about TLS."""

from __future__ import annotations

import socket
import ssl

import psutil
import pytest

from contract import address, load_settings
from contract.queue import make_celery
from tests.unit.contract.refusals import refusal


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h:6379/0", None),
        ("rediss://h:6380/0", {"ssl_cert_reqs": ssl.CERT_REQUIRED}),
        ("rediss://h/0?ssl_ca_certs=/ca.pem", {"ssl_ca_certs": "/ca.pem", "ssl_cert_reqs": ssl.CERT_REQUIRED}),
        ("rediss://h/0?ssl_cert_reqs=none", {"ssl_cert_reqs": ssl.CERT_NONE}),
        (
            "rediss://h/0?ssl_certfile=/c.pem&ssl_keyfile=/k.pem",
            {"ssl_certfile": "/c.pem", "ssl_keyfile": "/k.pem", "ssl_cert_reqs": ssl.CERT_REQUIRED},
        ),
    ],
)
def test_a_certificate_is_checked_unless_the_url_says_otherwise(url: str, expected: dict[str, object] | None) -> None:
    assert address.tls(url) == expected


@pytest.mark.parametrize("url", ["rediss://h:6380/0", "rediss://u:p@h:6380/0?ssl_ca_certs=/ca.pem"])
def test_the_queue_checks_certificates_as_the_ledger_does(url: str) -> None:
    app = make_celery(load_settings(None, [f"redis_url={url}"]))
    with app.connection_for_write() as connection:
        # Where the URL has options but not this one, it is redis-py's default that decides, and that is the same.
        assert connection.ssl.get("ssl_cert_reqs", ssl.CERT_REQUIRED) is ssl.CERT_REQUIRED
    app.close()


@pytest.mark.parametrize("url", ["redis://127.0.0.1:6379/0", "redis://[::1]/0", "redis://nowhere.invalid:6379/0"])
def test_beside_redis_or_without_a_way_to_it_a_host_is_called_by_its_name(url: str) -> None:
    assert address.facing(url) == socket.gethostname()


def test_a_host_is_found_at_its_address_on_the_way_to_redis() -> None:
    mine = {each.address for card in psutil.net_if_addrs().values() for each in card}
    found = address.facing("redis://user:secret@192.0.2.7:6379/0")
    assert found in mine or found == socket.gethostname(), "the latter without a network"


PASSWORD = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{PASSWORD}@redis.example:6380/2",
        f"rediss://user:{PASSWORD}@redis.example/0",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    found = load_settings(None, [f"redis_url={url}"])
    assert found.redis_url.get_secret_value() == url
    shown = [repr(found), str(found), found.redis_place, repr(found.redis_url), str(found.model_dump())]
    assert [each for each in (*shown, found.model_dump_json()) if PASSWORD in each] == []


@pytest.mark.parametrize(
    "url",
    [
        f"http://:{PASSWORD}@h/0",
        f"//:{PASSWORD}@h/0",
        PASSWORD,
        f"redis://user:{PASSWORD}@h:port/0",
        f"redis://user:12/{PASSWORD}@h:6379/0",
        f"redis:{PASSWORD}@h",
        f"REDISS://:{PASSWORD}@h:6379/0",
        f"redis://h:6379/0?password={PASSWORD}",
        f"rediss://h:6379/0?ssl_cert_reqs={PASSWORD}",
        f"unix://:{PASSWORD}@/run/redis.sock",
        f"redis://:{PASSWORD}/with-a-slash@h:6379/0",
        f"redis://:{PASSWORD}#with-a-hash@h:6379/0",
        f"redis://[h:{PASSWORD}@h",
        f"[redis://{PASSWORD}@h]",
        f"{{{PASSWORD}: h}}",
    ],
)
@pytest.mark.parametrize("layer", ["override", "environment"])
def test_a_url_that_is_none_is_refused_without_showing_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str, layer: str
) -> None:
    overrides = [f"redis_url={url}"] if layer == "override" else []
    if layer == "environment":
        monkeypatch.setenv("MCQUEUE_REDIS_URL", url)
    message = refusal(None, *overrides)
    assert message.startswith(("--set" if overrides else "MCQUEUE_REDIS_URL") + ": redis_url: ")
    assert PASSWORD not in message


def test_white_space_around_a_url_is_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with a secret ends with a newline; a space before the URL was accepted here, but not by redis-py."""
    monkeypatch.setenv("MCQUEUE_REDIS_URL", " redis://h:6379/0\n")
    assert load_settings().redis_url.get_secret_value() == "redis://h:6379/0"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://user:secret@redis.example/3", "redis://redis.example/3"),
        ("rediss://:secret@redis.example:6380", "rediss://redis.example:6380"),
        ("rediss://h:1/0?ssl_ca_certs=/secret.pem", "rediss://h:1/0"),
        ("redis://user:secret@[::1]:6380/3", "redis://[::1]:6380/3"),
    ],
)
def test_a_message_says_where_redis_is_and_nothing_more(url: str, place: str) -> None:
    assert load_settings(None, [f"redis_url={url}"]).redis_place == place
