"""Confinement of untrusted code by the kernel's unprivileged means; standard library only."""

from posttrain.sandbox.confine.confinement import SECURITY_SIGNAL, Confinement
from posttrain.sandbox.confine.identity import own_user
from posttrain.sandbox.confine.levels import DEVICES, Level, Rules, default_readable

__all__ = ["DEVICES", "SECURITY_SIGNAL", "Confinement", "Level", "Rules", "default_readable", "own_user"]
