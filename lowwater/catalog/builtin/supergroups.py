"""The states of the sampling operator: what its stateful functions keep, and the Python of each function.

Below `sampling`, which declares the functions and says what they mean. Every method of that name takes the number of
groups of the supergroup, then the function's own arguments. (Tigon's stateful functions for clean_operator; Johnson,
Muthukrishnan, Rozenbaum, Sampling algorithms in a stream operator, SIGMOD 2005; Manku, Motwani, VLDB 2002.)
"""

from __future__ import annotations

from dataclasses import dataclass

SMART, BASIC, MANKU = "smart_sampling_state", "basic_sampling_state", "manku_hh_state"
FIRST_THRESHOLD = 200.0
BURST = 10.0
"""By how much z is lowered at the beginning of a window, so that one after a burst is not starved."""


@dataclass
class SamplingState:
    """Base of the states: plain data, so that it can be carried from interval to interval."""

    def next_row(self) -> None:
        """Another row comes to the supergroup."""

    def finish(self, groups: int) -> None:
        """The window has ended; HAVING comes next."""

    def following(self, kept: int) -> SamplingState:
        """The state of the next window, after one that kept so many groups."""
        return type(self)()


@dataclass
class SmartSampling(SamplingState):
    """Dynamic subset-sum sampling: z is adapted so that about `size` groups are kept.

    Attributes:
        z: the threshold; `before` that of the groups that the latest cleaning left, `initial` that of the start.
        size: groups wanted.
        offered: units of small packets since one was sampled; `cleaned` and `final` the same of groups, in a cleaning
            and at the end of the window.
        cleaning: whether a cleaning is on or has just been.
        final_z: whether z was adjusted for the end of the window.
        packets: offered in the window; `cleanings` in the window.
        time: the time of the latest packet, of flows; `counting` whether closed flows are being counted at a new time.
        closed: flows counted as closed; `unsampled` those newly closed that the end of the window before dropped.
        closing: flows newly closed at the end of the window; `silence` is the delay of the last call.
    """

    z: float = FIRST_THRESHOLD
    before: float = 0.0
    initial: float = FIRST_THRESHOLD
    size: int = 0
    offered: float = 0.0
    cleaned: float = 0.0
    final: float = 0.0
    cleaning: bool = False
    final_z: bool = False
    packets: int = 0
    cleanings: int = 0
    time: int = 0
    counting: bool = False
    closed: int = 0
    unsampled: int = 0
    closing: int = 0
    silence: int = 0

    def finish(self, groups: int) -> None:
        """Adjusts z to the number of groups, once."""
        if self.final_z:
            return
        self.counting, self.closed = False, 0
        self.before = self.z
        groups -= self.unsampled
        self.z = self.z / 2 if groups < self.size or not self.size else self.z * groups / self.size
        self.z = self.z if self.z > 0 else 1.0
        self.final_z, self.unsampled = True, 0
        self.cleanings += 1

    def following(self, kept: int) -> SmartSampling:
        """The next window begins with a tenth of z."""
        z = max(self.z / BURST, 1.0)
        return SmartSampling(z=z, initial=z, size=self.size, cleaning=self.cleaning, unsampled=self.unsampled)

    def ssample(self, groups: int, units: float, size: int) -> bool:
        """Whether the packet is sampled."""
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
        """z now."""
        return self.z

    def ssdo_clean(self, groups: int) -> bool:
        """Whether there are too many groups; then z grows."""
        if groups > self.gamma(groups) * self.size:
            self._clean(self.gamma(groups))
        return self.cleaning

    def ssclean_with(self, groups: int, units: float) -> bool:
        """In a cleaning, whether a group stays."""
        return self._stays("cleaned", max(units, self.before))

    def ssfinal_clean(self, groups: int, units: float) -> bool:
        """At the end of the window, whether a group stays."""
        self.cleaning = True
        return groups <= self.size or self._stays("final", max(units, self.before))

    def flow_ssample(self, groups: int, size: int) -> bool:
        """Takes every packet."""
        self.packets += 1
        self.size = size
        if self.cleaning:
            self.cleaned, self.cleaning = 0.0, False
        return True

    def flow_ssdo_clean(self, groups: int, time: int) -> bool:
        """Whether closed flows are to be counted, since the time is another, or thinned out, since they are many."""
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
        """In a count or a cleaning, whether a flow stays: open ones do.

        Args:
            groups: how many groups the supergroup has.
            closed: whether a packet has ended the flow, such as an OR of flags.
            delay: silence after which a flow has ended, in the unit of `time`.
            time: instant of the latest packet of the flow, in the unit that the query gives.
            units: weight of the flow, its packets or bytes.
        """
        ended, new = self._ended(closed, delay, time)
        if self.counting:
            self.closed += ended
            if not new:
                return True
        elif not ended:
            return True
        # In a count the flow is newly closed, with its own units; in a cleaning the latest one weighs it.
        stays = self._stays("cleaned", units if self.counting else max(units, self.before))
        if self.counting and not stays:
            self.closed -= 1
        return stays

    def flow_ssfinal_clean(self, groups: int, closed: int, delay: int, time: int, units: float) -> bool:
        """At the end of the window, whether a flow stays.

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
        """Packets offered in the window."""
        return self.packets

    def gamma(self, groups: int) -> float:
        """How many times `size` groups make a cleaning due."""
        return 2.0

    def do_clean_count(self, groups: int) -> int:
        """Cleanings in the window."""
        return self.cleanings

    def init_threshold(self, groups: int) -> int:
        """z at the beginning of the window."""
        return int(self.initial)

    def delay(self, groups: int) -> int:
        """The delay of the last call."""
        return self.silence

    def newly_closed(self, groups: int) -> int:
        """Flows that were newly closed, or open, at the end of the window."""
        return self.closing

    def _clean(self, factor: float) -> None:
        self.before, self.z = self.z, self.z * factor
        self.cleaning, self.offered, self.cleaned = True, 0.0, 0.0
        self.cleanings += 1

    def _stays(self, counter: str, units: float) -> bool:
        """Whether a group of so many units is kept: above z, or when smaller ones have added up to z."""
        if units > self.z:
            return True
        total = getattr(self, counter) + units
        stays: bool = total >= self.z
        setattr(self, counter, total - self.z if stays else total)
        return stays

    def _ended(self, closed: int, delay: int, time: int) -> tuple[bool, bool]:
        """Whether a flow is closed, by itself or by its silence, and whether that is new."""
        silent = self.time - time
        if closed:
            return True, silent <= 1
        return silent >= delay, delay <= silent <= delay + 1


@dataclass
class BasicSampling(SamplingState):
    """Subset-sum sampling with a fixed threshold.

    Attributes:
        offered: units of small packets since one was sampled.
    """

    offered: float = 0.0

    def nssample(self, groups: int, units: float, z: int) -> bool:
        """Whether the packet is sampled."""
        if units > z:
            return True
        self.offered += units
        if self.offered < z:
            return False
        self.offered -= z
        return True


@dataclass
class LossyCounting(SamplingState):
    """Buckets of packets (Manku and Motwani).

    Attributes:
        packets: counted in the window.
        width: the width of a bucket; 0 before the first count.
        counted: whether the row that is worked on is counted already.
    """

    packets: int = 0
    width: int = 0
    counted: bool = False

    def next_row(self) -> None:
        """A row that is not counted yet."""
        self.counted = False

    def local_count(self, groups: int, width: int) -> bool | None:
        """Counts a packet; whether it ends a bucket. It fails where the width is below 1."""
        if width < 1:
            return None
        self.packets, self.width, self.counted = self.packets + 1, width, True
        return self.packets % width == 0

    def current_bucket(self, groups: int) -> int:
        """The bucket of the packet that is worked on, counted from 1."""
        return (self.packets - self.counted) // self.width + 1 if self.width else 1


STATE_CLASSES: dict[str, type[SamplingState]] = {SMART: SmartSampling, BASIC: BasicSampling, MANKU: LossyCounting}
