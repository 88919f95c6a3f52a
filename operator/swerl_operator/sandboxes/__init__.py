"""SweSandboxes: groups of single-use Pods, admitted as a unit, started in waves, gone with their driver's Lease.

Reading order: `facts` (what is known) → `decision` (what to do) → `status` (what to say) → `admission` and `pacing`
(who may go on) → `controller` and `feed` (the loop around them) → `cluster` (the API calls).
"""

from __future__ import annotations

from .registration import register
from .settings import SandboxSettings

__all__ = ["SandboxSettings", "register"]
