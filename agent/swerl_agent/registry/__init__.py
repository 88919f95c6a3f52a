"""Registries of container images: which images they have, asked for by the registry API without pulling anything.

Guarantees: only HEAD requests for manifests, and requests for tokens; no registry gets more of them in a minute than
allowed; an image counts as missing only when its registry says so.
"""

from .availability import Availability, check_images
from .client import RegistryClient, RegistryLimits
from .credentials import CredentialError, RegistryCredentials, read_credentials
from .reference import ParsedReference, ReferenceError, parse_reference

__all__ = [
    "Availability",
    "CredentialError",
    "ParsedReference",
    "ReferenceError",
    "RegistryClient",
    "RegistryCredentials",
    "RegistryLimits",
    "check_images",
    "parse_reference",
    "read_credentials",
]
