"""A self-signed certificate for one run, made by the ``openssl`` program.

It is its own authority: clients are given it as the CA. The key never leaves the folder that is handed in.
"""

from __future__ import annotations

import ipaddress
import ssl
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from podtide.adapters.http_server.settings import NotServed

DAYS: Final = 30
WAIT_S: Final = 30


class Certificate(NamedTuple):
    """PEM files."""

    certificate: Path
    key: Path


def tls_context(certificate: Certificate) -> ssl.SSLContext:
    """What a server serves HTTPS with; raises OSError where a file cannot be read or used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate.certificate, certificate.key)
    return context


def self_signed(folder: Path, address: str) -> Certificate:
    """Make one for an address; raises NotServed."""
    made = Certificate(folder / "server.crt", folder / "server.key")
    try:
        name = f"IP:{ipaddress.ip_address(address)}"
    except ValueError:
        name = f"DNS:{address}"
    names = ",".join(dict.fromkeys((name, "IP:127.0.0.1", "DNS:localhost")))
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-batch",
        "-days", str(DAYS), "-subj", "/CN=podtide", "-keyout", str(made.key), "-out", str(made.certificate),
        "-addext", f"subjectAltName={names}", "-addext", "keyUsage=critical,digitalSignature,keyCertSign",
        "-addext", "extendedKeyUsage=serverAuth",
    ]  # fmt: skip
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)  # noqa: S603 - fixed program
    except FileNotFoundError:
        raise NotServed("TLS needs the program openssl, which is not there") from None
    except subprocess.TimeoutExpired:
        raise NotServed(f"openssl made no certificate in {WAIT_S} s") from None
    if run.returncode:
        raise NotServed(f"openssl made no certificate: {run.stderr.strip().splitlines()[-1:]}")
    made.key.chmod(0o600)
    return made
