"""Implements the states of the sampling operator and their stateful functions.

They are declared and explained at the end of the file. A method with the name of a function takes the number of
groups of the supergroup, then the arguments of the function. (Tigon's stateful functions for clean_operator; Johnson,
Muthukrishnan, Rozenbaum, Sampling algorithms in a stream operator, SIGMOD 2005; Manku, Motwani, VLDB 2002.)
"""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.catalog import expr as ex, functions

SMART, BASIC, MANKU = "smart_sampling_state", "basic_sampling_state", "manku_hh_state"
FIRST_THRESHOLD = 200.0
BURST = 10.0
"""Divisor of z at the start of a window, so that a window after a burst still gets samples."""


@dataclass
class SamplingState:
    """Base of the states. A state holds plain data, because intervals store it and continue from it."""

    def next_row(self) -> None:
        """Prepares the state for the next row of the supergroup."""

    def finish(self, groups: int) -> None:
        """Ends the window, before the operator evaluates HAVING."""

    def following(self, remaining: int) -> SamplingState:
        """Returns the state of the next window."""
        return type(self)()


@dataclass
class SmartSampling(SamplingState):
    """Dynamic subset-sum sampling. The state adapts z so that about `size` groups remain."""

    z: float = FIRST_THRESHOLD  # the threshold
    before: float = 0.0  # the threshold before the latest cleaning
    initial: float = FIRST_THRESHOLD  # the threshold at the start of the window
    size: int = 0  # the target number of groups
    offered: float = 0.0  # the sum of units of small packets since the latest sample
    cleaned: float = 0.0  # the sum of units of small groups during a cleaning, since the latest survivor
    final: float = 0.0  # the sum of units of small groups at the end of the window, since the latest survivor
    cleaning: bool = False  # whether a cleaning is in progress or has just ended
    final_z: bool = False  # whether `finish` has adjusted z for the end of the window
    packets: int = 0
    cleanings: int = 0
    time: int = 0  # the time of the latest packet; for flows
    counting: bool = False  # whether the operator counts closed flows at a new time
    closed: int = 0
    unsampled: int = 0  # the number of newly closed flows that the end of the window before dropped
    closing: int = 0  # the number of newly closed flows at the end of the window
    silence: int = 0  # the delay of the last call

    def finish(self, groups: int) -> None:
        """Adjusts z to the number of groups, once per window."""
        if self.final_z:
            return
        self.counting, self.closed = False, 0
        self.before = self.z
        groups -= self.unsampled
        self.z = self.z / 2 if groups < self.size or not self.size else self.z * groups / self.size
        self.z = self.z if self.z > 0 else 1.0
        self.final_z, self.unsampled = True, 0
        self.cleanings += 1

    def following(self, remaining: int) -> SmartSampling:
        """Returns the state of the next window, with z divided by `BURST`."""
        z = max(self.z / BURST, 1.0)
        return SmartSampling(z=z, initial=z, size=self.size, cleaning=self.cleaning, unsampled=self.unsampled)

    def ssample(self, groups: int, units: float, size: int) -> bool:
        """Whether to sample the packet."""
        self.packets += 1
        self.size = size
        if self.cleaning:
            self.cleaned, self.cleaning = 0.0, False
        if units > self.z:
            return True
        self.offered += units
        if self.offered < self.z:
            return False
        self.offered -= self.z
        return True

    def ssthreshold(self, groups: int) -> float:
        return self.z

    def ssdo_clean(self, groups: int) -> bool:
        """Whether the supergroup has too many groups; if so, z grows."""
        if groups > self.gamma(groups) * self.size:
            self._clean(self.gamma(groups))
        return self.cleaning

    def ssclean_with(self, groups: int, units: float) -> bool:
        """Whether a group survives a cleaning."""
        return self._stays("cleaned", max(units, self.before))

    def ssfinal_clean(self, groups: int, units: float) -> bool:
        """Whether a group survives the end of the window."""
        self.cleaning = True
        return groups <= self.size or self._stays("final", max(units, self.before))

    def flow_ssample(self, groups: int, size: int) -> bool:
        self.packets += 1
        self.size = size
        if self.cleaning:
            self.cleaned, self.cleaning = 0.0, False
        return True

    def flow_ssdo_clean(self, groups: int, time: int) -> bool:
        """Whether to clean: to count closed flows at a new time, or to remove some if there are too many."""
        self.time = self.time or time
        if self.time != time:
            self.time, self.counting = time, True
            return True
        if self.closed > self.gamma(groups) * self.size and self.size:
            self._clean(self.closed / self.size)
        if self.counting:
            self.counting, self.closed, self.cleaned = False, 0, 0.0
        return self.cleaning

    def flow_ssclean_with(self, groups: int, closed: int, delay: int, time: int, units: float) -> bool:
        """Whether a flow survives a count or a cleaning. An open flow always does.

        Args:
            closed: whether a packet has ended the flow, such as an OR of flags.
            delay: the time without packets after which a flow has ended, in the unit of `time`.
            time: the instant of the latest packet of the flow, in the unit of the query.
            units: the weight of the flow, in packets or bytes.
        """
        ended, new = self._ended(closed, delay, time)
        if self.counting:
            self.closed += ended
            if not new:
                return True
        elif not ended:
            return True
        # A count weighs a newly closed flow by its units. A cleaning weighs a flow by at least the old z.
        stays = self._stays("cleaned", units if self.counting else max(units, self.before))
        if self.counting and not stays:
            self.closed -= 1
        return stays

    def flow_ssfinal_clean(self, groups: int, closed: int, delay: int, time: int, units: float) -> bool:
        """Whether a flow survives the end of the window.

        Arguments as of `flow_ssclean_with`.
        """
        self.silence, self.cleaning = delay, True
        ended, new = self._ended(closed, delay, time)
        new = new or not ended
        self.closing += new
        if groups <= self.size:
            self.unsampled = 0
            return True
        stays = self._stays("final", units if new else max(units, self.before))
        self.unsampled += new and not stays
        return stays

    def packet_count(self, groups: int) -> int:
        return self.packets

    def gamma(self, groups: int) -> float:
        """Returns the multiple of `size` groups that triggers a cleaning."""
        return 2.0

    def do_clean_count(self, groups: int) -> int:
        return self.cleanings

    def init_threshold(self, groups: int) -> int:
        return int(self.initial)

    def delay(self, groups: int) -> int:
        return self.silence

    def newly_closed(self, groups: int) -> int:
        """Returns the number of newly closed or open flows at the end of the window."""
        return self.closing

    def _clean(self, factor: float) -> None:
        self.before, self.z = self.z, self.z * factor
        self.cleaning, self.offered, self.cleaned = True, 0.0, 0.0
        self.cleanings += 1

    def _stays(self, counter: str, units: float) -> bool:
        """Whether a group survives: its units exceed z, or the units of small groups sum to z."""
        if units > self.z:
            return True
        total = getattr(self, counter) + units
        stays: bool = total >= self.z
        setattr(self, counter, total - self.z if stays else total)
        return stays

    def _ended(self, closed: int, delay: int, time: int) -> tuple[bool, bool]:
        """Whether a flow is closed (by a packet or by `delay`), and whether it is newly closed."""
        silent = self.time - time
        if closed:
            return True, silent <= 1
        return silent >= delay, delay <= silent <= delay + 1


@dataclass
class BasicSampling(SamplingState):
    """Subset-sum sampling with a fixed threshold."""

    offered: float = 0.0  # the sum of units of small packets since the latest sample

    def nssample(self, groups: int, units: float, z: int) -> bool:
        """Whether to sample the packet."""
        if units > z:
            return True
        self.offered += units
        if self.offered < z:
            return False
        self.offered -= z
        return True


@dataclass
class LossyCounting(SamplingState):
    """Lossy counting over buckets of packets (Manku and Motwani)."""

    packets: int = 0
    width: int = 0  # the number of packets in a bucket; 0 before the first count
    counted: bool = False  # whether the count includes the current row

    def next_row(self) -> None:
        """Notes that the count does not include the next row yet."""
        self.counted = False

    def local_count(self, groups: int, width: int) -> bool | None:
        """Counts a packet. Returns whether it ends a bucket; None (a failure) for a width below 1."""
        if width < 1:
            return None
        self.packets, self.width, self.counted = self.packets + 1, width, True
        return self.packets % width == 0

    def current_bucket(self, groups: int) -> int:
        """Returns the number of the bucket of the current packet, from 1."""
        return (self.packets - self.counted) // self.width + 1 if self.width else 1


STATE_CLASSES: dict[str, type[SamplingState]] = {SMART: SmartSampling, BASIC: BasicSampling, MANKU: LossyCounting}


# Declares the stateful functions of the sampling operator; `supergroups` implements their states.
#
# A family of the built-in catalog. Every supergroup has one state per window, and all functions of the state share it.
# The state of a window starts from the state of the window before. Every function gets the number of groups of its
# supergroup. The names are those of the Tigon SQL manuals. An argument for a length may have any unit.
#
# `smart_sampling_state` is dynamic subset-sum sampling with a threshold z. A sampled packet represents at least z
# units. The state adapts z so that about `size` groups remain.
#
# * `ssample(len, size)`: whether to sample the packet: always for a len above z, else whenever small packets sum to z.
# * `ssthreshold()`: the current z, so that `UMAX(sum(len), ssthreshold())` is the weight of a group.
# * `ssdo_clean()`: whether a cleaning is due, at more than gamma times `size` groups; then z grows by the factor gamma.
# * `ssclean_with(units)`: whether a group with this number of units survives a cleaning under the new z.
# * `ssfinal_clean(units)`: whether a group survives the end of the window, so that about `size` groups remain.
# * `flow_ssample(size)`, `flow_ssdo_clean(time)`, `flow_ssclean_with(closed, delay, time, units)` and
#   `flow_ssfinal_clean(...)`: the functions for groups that are flows. They sample every packet. A cleaning removes
#   only closed flows and flows without a packet for `delay`.
# * `packet_count()`: the packets offered in the window. `do_clean_count()`: the cleanings in the window.
# * `gamma()`: the factor of ssdo_clean. `init_threshold()`: z at the start of the window.
# * `delay()`: the delay of the last call. `newly_closed()`: the flows closed since the last count.
#
# `basic_sampling_state`. `nssample(len, z)`: ssample with a fixed threshold.
#
# `manku_hh_state` is lossy counting. `local_count(width)`: counts a packet; whether it ends a bucket of `width`
# packets. `current_bucket()`: the number of the bucket, from 1; during a cleaning,
# the number of the bucket that has ended.

_BOOL, _INT, _FLOAT = ex.Type.BOOL, ex.Type.INT, ex.Type.FLOAT


_LIMITS: dict[str, functions.Limits] = {
    **dict.fromkeys(("ssample", "nssample"), ((1, functions.at_least(1)),)),
    **dict.fromkeys(("flow_ssample", "local_count"), ((0, functions.at_least(1)),)),
    **dict.fromkeys(("flow_ssclean_with", "flow_ssfinal_clean"), ((1, functions.at_least(0)),)),
}


def _function(name: str, state: str, parameters: tuple[ex.Type, ...], returns: ex.Type) -> functions.StateFunction:
    value, limits = getattr(STATE_CLASSES[state], name), _LIMITS.get(name, ())
    return functions.StateFunction(name, state, parameters, returns, value=value, limits=limits)


def _flows() -> list[functions.StateFunction]:
    names = ("flow_ssclean_with", "flow_ssfinal_clean")
    # `closed` is a comparison or the OR of flags, so both types are valid.
    return [
        _function(name, SMART, (closed, _INT, _INT, units), _BOOL)
        for name in names
        for closed in (_BOOL, _INT)
        for units in (_INT, _FLOAT)
    ]


STATES: tuple[functions.StateFunction, ...] = (
    *(_function("ssample", SMART, (units, _INT), _BOOL) for units in (_INT, _FLOAT)),
    _function("ssthreshold", SMART, (), _FLOAT),
    _function("ssdo_clean", SMART, (), _BOOL),
    *(
        _function(name, SMART, (units,), _BOOL)
        for name in ("ssclean_with", "ssfinal_clean")
        for units in (_INT, _FLOAT)
    ),
    _function("flow_ssample", SMART, (_INT,), _BOOL),
    _function("flow_ssdo_clean", SMART, (_INT,), _BOOL),
    *_flows(),
    _function("packet_count", SMART, (), _INT),
    _function("gamma", SMART, (), _FLOAT),
    _function("do_clean_count", SMART, (), _INT),
    _function("init_threshold", SMART, (), _INT),
    _function("delay", SMART, (), _INT),
    _function("newly_closed", SMART, (), _INT),
    *(_function("nssample", BASIC, (units, _INT), _BOOL) for units in (_INT, _FLOAT)),
    _function("local_count", MANKU, (_INT,), _BOOL),
    _function("current_bucket", MANKU, (), _INT),
)
