"""NVIDIA's management library, through ctypes; what it cannot tell is None.

Names and values are those of nvml.h.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from ctypes import c_int, c_uint, c_ulonglong, c_void_p

LIBRARY = "libnvidia-ml.so.1"
SM_CLOCK = 1
MOST_PROCESSES = 64
SLOWDOWNS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "heat",
    0x40: "heat, by hardware",
    0x80: "power brake",
}
"""Why clocks are lowered for power or heat."""


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", c_uint),
        ("memory", c_ulonglong),
        ("instances", c_uint * 2),
    )


class _Use(ctypes.Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class Sensors:
    """The sensors of one GPU, found by its UUID."""

    def __init__(self, uuid: str) -> None:
        self._library: ctypes.CDLL | None = None
        self._device = c_void_p()
        with suppress(OSError, AttributeError):
            library = ctypes.CDLL(LIBRARY)
            found = ctypes.byref(self._device)
            if library.nvmlInit_v2() == 0 and (
                library.nvmlDeviceGetHandleByUUID(uuid.encode(), found) == 0
            ):
                self._library = library

    def _ask(self, function: str, value: object, *arguments: object) -> bool:
        if self._library is None:
            return False
        try:
            call = getattr(self._library, function)
        except AttributeError:
            return False
        place = ctypes.byref(value)  # type: ignore[arg-type]
        return bool(call(self._device, *arguments, place) == 0)

    def celsius(self) -> float | None:
        """Return the temperature."""
        value = c_uint()
        known = self._ask("nvmlDeviceGetTemperature", value, c_int(0))
        return float(value.value) if known else None

    def watts(self) -> float | None:
        """Return the power."""
        value = c_uint()
        known = self._ask("nvmlDeviceGetPowerUsage", value)
        return value.value / 1000 if known else None

    def most_mhz(self) -> float | None:
        """Return the highest SM clock."""
        value = c_uint()
        known = self._ask("nvmlDeviceGetMaxClockInfo", value, c_int(SM_CLOCK))
        return float(value.value) if known else None

    def throttled(self) -> tuple[str, ...]:
        """Return why the clock is lowered for power or heat now; none if it is not."""
        value = c_ulonglong()
        known = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", value)
        if not known:
            return ()
        return tuple(why for bit, why in SLOWDOWNS.items() if value.value & bit)

    def busy_percent(self) -> int | None:
        """Return the share of the last moments in which a kernel ran."""
        value = _Use()
        known = self._ask("nvmlDeviceGetUtilizationRates", value)
        return value.gpu if known else None

    def processes(self) -> int | None:
        """Return how many processes have a context on the GPU."""
        count, found = c_uint(MOST_PROCESSES), (_Process * MOST_PROCESSES)()
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        known = self._ask(name, found, ctypes.byref(count))
        return count.value if known else None
