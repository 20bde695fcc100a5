"""Certificates, and clients that trust them."""

import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make_certificate(folder, name, file="", from_days=-9, until_days=1):
    """Signed by itself: `<file>cert.pem` and `<file>key.pem`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now + timedelta(days=from_days))
        .not_valid_after(now + timedelta(days=until_days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / f"{file}cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / f"{file}key.pem").write_bytes(private)


def trusting(folder, shown=None):
    """A client that trusts the server, and perhaps shows a certificate."""
    client = ssl.create_default_context(cafile=folder / "cert.pem")
    if shown is not None:
        client.load_cert_chain(folder / f"{shown}-cert.pem", folder / f"{shown}-key.pem")
    return client
