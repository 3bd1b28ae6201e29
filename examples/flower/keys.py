"""An own certificate authority, and keys for the nodes."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certify(folder: Path) -> None:
    """An own certificate authority, and a certificate of the server on this machine."""
    if (folder / "server.crt").exists():
        return
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    ca, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "holdfast example CA")])
    here = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])

    def signed(name: x509.Name, key: Any, ext: x509.ExtensionType) -> x509.Certificate:
        made = x509.CertificateBuilder().subject_name(name).issuer_name(authority).public_key(key.public_key())
        made = (
            made.serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + 30 * day)
        )
        return made.add_extension(ext, critical=isinstance(ext, x509.BasicConstraints)).sign(ca, hashes.SHA384())

    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    for name, found in (
        ("ca.crt", signed(authority, ca, x509.BasicConstraints(ca=True, path_length=None))),
        ("server.crt", signed(here, server, names)),
    ):
        (folder / name).write_bytes(found.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    (folder / "server.key").touch(0o600)
    (folder / "server.key").write_bytes(
        server.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )


def key_pair(path: Path) -> None:
    """A node's key; the public half is path.pub."""
    if path.exists():
        return
    key = ec.generate_private_key(ec.SECP384R1())
    path.touch(0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.with_suffix(".pub").write_bytes(public)
