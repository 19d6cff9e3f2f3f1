"""TLS in front of a server that has none: what a rediss:// URL meets. The embedded Valkey is built without TLS."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["relay"]


@contextmanager
def relay(host: str, port: int, folder: Path) -> Iterator[tuple[int, Path]]:
    """Listen with TLS on a loopback port and pass everything on in the clear; yields that port and its certificate."""
    certificate, key = _self_signed(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, context, (host, port)), daemon=True).start()
        try:
            yield listening.getsockname()[1], certificate
        finally:
            listening.shutdown(socket.SHUT_RDWR)  # else the thread that waits in `accept` keeps the port


def _accept(listening: socket.socket, context: ssl.SSLContext, target: tuple[str, int]) -> None:
    with suppress(OSError):
        while True:
            outside, _ = listening.accept()
            threading.Thread(target=_serve, args=(outside, context, target), daemon=True).start()


def _serve(raw: socket.socket, context: ssl.SSLContext, target: tuple[str, int]) -> None:
    with (
        raw,
        suppress(OSError),
        context.wrap_socket(raw, server_side=True) as outside,
        socket.create_connection(target) as inside,
    ):
        threading.Thread(target=_pass_on, args=(inside, outside), daemon=True).start()
        _pass_on(outside, inside)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    alternatives = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, key_pem = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key_pem.write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))
    return pem, key_pem
