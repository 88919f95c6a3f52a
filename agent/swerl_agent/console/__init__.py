"""`swerl view`: the folders of jobs and evaluations as web pages.

Guarantees: nothing in the viewed folder changes but the console's own index. Every text of an artifact is escaped and
its control characters are shown, never interpreted. Missing, half-written and malformed files leave a page with less
on it, never an error. Ground truth appears only when it was asked for.
"""

from .access import ConsoleAccess
from .app import console_application
from .ground_truth import GroundTruthSource
from .handlers import Handlers
from .index import EpisodeIndex, index_path, is_foreign
from .rendering import Pages
from .serving import serve_console
from .visitors import Authenticator, KubernetesToken, ProxyHeader, Reviews, SharedToken

__all__ = [
    "Authenticator",
    "ConsoleAccess",
    "EpisodeIndex",
    "GroundTruthSource",
    "Handlers",
    "KubernetesToken",
    "Pages",
    "ProxyHeader",
    "Reviews",
    "SharedToken",
    "console_application",
    "index_path",
    "is_foreign",
    "serve_console",
]
