"""The URL of Redis: what of it may be shown, and what it says about TLS."""

from __future__ import annotations

import socket
import ssl

import psutil
import pytest

from contract import address, load_settings
from contract.queue import make_celery


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
