"""A local certificate authority issues the certificates of the sandbox, `mmo listen` and the demo.

It consists of two files in a data directory: `ca-key.pem`, its key and certificate, readable by its
owner only, and `ca.pem`, the certificate alone, which the sandbox trusts in addition to the
authorities in `egress.extra_ca_file`. Production doesn't use it."""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from attrs import field, frozen

from mmo_trio.system.damaged_file import DamagedFile

# The longest that browsers accept.
CERTIFICATE_LIFETIME = timedelta(days=397)

# How long before its issue a certificate is valid, for clocks that are behind.
BACKDATE = timedelta(days=1)


@frozen
class CertificateAuthority:
    """Issues certificates for local servers."""

    certificate_file: Path
    """The authority's certificate (PEM), which clients must trust."""
    _authority: trustme.CA = field(repr=False, eq=False)

    def issue(self, *hosts: str) -> ssl.SSLContext:
        """Return a server's TLS context with a fresh certificate for these host names and IP
        addresses."""
        begin = datetime.now(UTC) - BACKDATE
        certificate = self._authority.issue_cert(
            *hosts,
            organization_name="mmo-gateway",
            not_before=begin,
            not_after=begin + CERTIFICATE_LIFETIME,
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        certificate.configure_cert(context)
        return context


def ensure_authority(directory: Path) -> CertificateAuthority:
    """Return the authority of this directory, created when there is none yet.

    Processes that start together get the same one. Raises OSError when the directory can't be
    written, and DamagedFile when `ca-key.pem` does not hold a key and its certificate."""
    directory.mkdir(parents=True, exist_ok=True)
    key_file = directory / "ca-key.pem"
    certificate_file = directory / "ca.pem"
    if not key_file.exists():
        fresh = trustme.CA(
            organization_name="mmo-gateway",
            organization_unit_name="sandbox authority",
            path_length=0,  # It issues servers' certificates only, and no other authorities.
        )
        with suppress(FileExistsError):  # Another process was faster, and its authority is used.
            _write_atomically(
                key_file, fresh.private_key_pem.bytes() + fresh.cert_pem.bytes(), replace=False
            )

    # Read again, also where it was made here: of several processes, one has written it.
    authority = _read_authority(key_file)
    certificate = authority.cert_pem.bytes()
    if not certificate_file.exists() or certificate_file.read_bytes() != certificate:
        _write_atomically(certificate_file, certificate, replace=True)

    return CertificateAuthority(certificate_file, authority)


def _read_authority(file: Path) -> trustme.CA:
    content = file.read_bytes()
    try:
        # It finds a key that is not the certificate's; the password keeps it from asking for one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, password="none")
        return trustme.CA.from_pem(content, content)
    except (ssl.SSLError, ValueError):
        fault = f"{file} does not hold a key and its certificate"
        raise DamagedFile(
            f"{fault}: remove it to have an authority made, which clients must trust anew."
        ) from None


def _write_atomically(file: Path, content: bytes, *, replace: bool) -> None:
    """Write the complete file or nothing, readable by its owner only. Raises FileExistsError when
    the file exists, unless `replace` is set."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as temporary:
            temporary.write(content)
            temporary.flush()
            os.fsync(temporary.fileno())

        # A link fails where the file exists; a rename would replace what another process has made.
        if replace:
            os.replace(name, file)
        else:
            os.link(name, file)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)
