"""Declares the stateful functions of the sampling operator; `supergroups` implements their states.

A family of the built-in catalog. Every supergroup has one state per window, and all functions of the state share it.
The state of a window starts from the state of the window before. Every function gets the number of groups of its
supergroup. The names are those of the Tigon SQL manuals. An argument for a length may have any unit.

`smart_sampling_state` is dynamic subset-sum sampling with a threshold z. A sampled packet represents at least z units.
The state adapts z so that about `size` groups remain.

* `ssample(len, size)`: whether to sample the packet: always for a len above z, else whenever small packets sum to z.
* `ssthreshold()`: the current z, so that `UMAX(sum(len), ssthreshold())` is the weight of a group.
* `ssdo_clean()`: whether a cleaning is due, at more than gamma times `size` groups; then z grows by the factor gamma.
* `ssclean_with(units)`: whether a group with this number of units survives a cleaning under the new z.
* `ssfinal_clean(units)`: whether a group survives the end of the window, so that about `size` groups remain.
* `flow_ssample(size)`, `flow_ssdo_clean(time)`, `flow_ssclean_with(closed, delay, time, units)` and
  `flow_ssfinal_clean(...)`: the functions for groups that are flows. They sample every packet. A cleaning removes only
  closed flows and flows without a packet for `delay`.
* `packet_count()`: the packets offered in the window. `do_clean_count()`: the cleanings in the window.
* `gamma()`: the factor of ssdo_clean. `init_threshold()`: z at the start of the window.
* `delay()`: the delay of the last call. `newly_closed()`: the flows closed since the last count.

`basic_sampling_state`. `nssample(len, z)`: ssample with a fixed threshold.

`manku_hh_state` is lossy counting. `local_count(width)`: counts a packet; whether it ends a bucket of `width` packets.
`current_bucket()`: the number of the bucket, from 1; during a cleaning, the number of the bucket that has ended.
"""

from __future__ import annotations

from lowwater.catalog.builtin.supergroups import BASIC, MANKU, SMART, STATE_CLASSES
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import StateFunction
from lowwater.catalog.limits import Limits, at_least

_BOOL, _INT, _FLOAT = Type.BOOL, Type.INT, Type.FLOAT


_LIMITS: dict[str, Limits] = {
    **dict.fromkeys(("ssample", "nssample"), ((1, at_least(1)),)),
    **dict.fromkeys(("flow_ssample", "local_count"), ((0, at_least(1)),)),
    **dict.fromkeys(("flow_ssclean_with", "flow_ssfinal_clean"), ((1, at_least(0)),)),
}


def _function(name: str, state: str, parameters: tuple[Type, ...], returns: Type) -> StateFunction:
    value, limits = getattr(STATE_CLASSES[state], name), _LIMITS.get(name, ())
    return StateFunction(name, state, parameters, returns, value=value, limits=limits)


def _flows() -> list[StateFunction]:
    names = ("flow_ssclean_with", "flow_ssfinal_clean")
    # `closed` is a comparison or the OR of flags, so both types are valid.
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
