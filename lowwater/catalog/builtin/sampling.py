"""Stateful functions of the sampling operator: their types and meanings; their states are in `supergroups`.

A family of the shipped catalog. All functions of one state share it, one state a supergroup and window; a new window
takes over from the old one. Every function is told how many groups its supergroup has. Names are those of the Tigon
SQL manuals; what takes a length takes any number of units.

`smart_sampling_state`, dynamic subset-sum sampling. A packet stands for at least z units, z being the threshold; z is
adapted so that about `size` groups are kept.

* `ssample(len, size)`: whether the packet is sampled: a len above z always, smaller ones once they add up to z.
* `ssthreshold()`: z now, so that `UMAX(sum(len), ssthreshold())` is the weight of a group.
* `ssdo_clean()`: whether there are more than gamma times `size` groups, so that z grows by gamma and a cleaning is due.
* `ssclean_with(units)`: in a cleaning, whether a group of so many units stays under the grown z.
* `ssfinal_clean(units)`: at the end of the window, whether a group stays, so that about `size` remain.
* `flow_ssample(size)`, `flow_ssdo_clean(time)`, `flow_ssclean_with(closed, delay, time, units)` and
  `flow_ssfinal_clean(...)`: the same where groups are flows; every packet is taken, and only flows are thinned out that
  are closed, or silent for `delay` at the time of their last packet.
* `packet_count()`: packets offered in the window. `do_clean_count()`: cleanings in the window.
* `gamma()`: the factor of ssdo_clean. `init_threshold()`: z at the beginning of the window.
* `delay()`: the delay of the last call. `newly_closed()`: flows closed since the last count.

`basic_sampling_state`. `nssample(len, z)`: as ssample, the threshold fixed.

`manku_hh_state`, lossy counting. `local_count(width)`: counts a packet; whether it ends a bucket of `width` packets.
`current_bucket()`: number of the bucket, counted from 1; in a cleaning, of the bucket that has ended.
"""

from __future__ import annotations

from lowwater.catalog.builtin.supergroups import BASIC, MANKU, SMART, STATE_CLASSES
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import StateFunction

_BOOL, _INT, _FLOAT = Type.BOOL, Type.INT, Type.FLOAT


def _function(name: str, state: str, parameters: tuple[Type, ...], returns: Type) -> StateFunction:
    return StateFunction(name, state, parameters, returns, value=getattr(STATE_CLASSES[state], name))


def _flows() -> list[StateFunction]:
    names = ("flow_ssclean_with", "flow_ssfinal_clean")
    # `closed` is a comparison or the OR of flags, so both types are taken.
    return [
        _function(name, SMART, (closed, _INT, _INT, units), _BOOL)
        for name in names
        for closed in (_BOOL, _INT)
        for units in (_INT, _FLOAT)
    ]


STATES: tuple[StateFunction, ...] = (
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
