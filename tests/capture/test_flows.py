"""Community IDs against the published baseline and against each other; `test_real_captures` has tshark's."""

from __future__ import annotations

from hypothesis import given, strategies as st

from lowwater.catalog.builtin.numbers import PORTED, community_id, community_id_without_ports
from lowwater.catalog.values import pack_ip

ND, LL = "fe80::200:86ff:fe05:80da", "fe80::260:97ff:fe07:69ea"
HOST6, MAIL4, MAIL6 = (
    "3ffe:507:0:1:200:86ff:fe05:80da",
    "2001:470:e5bf:dead:4957:2174:e82c:4887",
    "2607:f8b0:400c:c03::1a",
)
BASELINE: list[tuple[int, str, str, int | None, int | None, str, str]] = [
    (58, ND, LL, 135, 0, "dGHyGvjMfljg6Bppwm3bg0LO8TY=", "kHa1FhMYIT6Ym2Vm2AOtoOARDzY="),
    (58, LL, ND, 136, 0, "dGHyGvjMfljg6Bppwm3bg0LO8TY=", "kHa1FhMYIT6Ym2Vm2AOtoOARDzY="),
    (58, LL, ND, 135, 0, "zavyT/cezQr1fmImYCwYnMXbgck=", "2hSqmsDZ2kdcY9kbiUzOEBic0iM="),
    (58, "3ffe:501:1800:2345::2", HOST6, 3, 0, "2ObVBgIn28oZvibYZhZMBgh7WdQ=", "lVEtCZpYu84Xqaa++3lXFyuu2n4="),
    (58, "3ffe:501:410:0:2c0:dfff:fe47:33e", HOST6, 1, 4, "hLZd0XGWojozrvxqE0dWB1iM6R0=",
     "W8MHwXpWzpoSTD+cGcaJr4u0ys8="),
    (58, HOST6, "3ffe:501:0:1001::2", 128, 0, "+TW+HtLHvV1xnGhV1lv7XoJrqQg=", "GfZxjAkDk2MkegpBYHV6tadtFXQ="),
    (58, "3ffe:501:0:1001::2", HOST6, 129, 0, "+TW+HtLHvV1xnGhV1lv7XoJrqQg=", "GfZxjAkDk2MkegpBYHV6tadtFXQ="),
    (58, ND, "ff02::2", 133, 0, "hO+sN4H+MG5MY/8hIrXPqc4ZQz0=", "L7Ka0ZMYu+J3bL4ulW2PrqyXNo8="),
    (58, LL, "ff02::1", 134, 0, "pkvHqCL88/tg1k4cPigmZXUtL00=", "K/ee5UCqAMAQXDorP5nSa2CGLjc="),
    (1, "192.168.0.89", "192.168.0.1", 8, 0, "X0snYXpgwiv9TZtqg64sgzUn6Dk=", "03g6IloqVBdcZlPyX8r0hgoE7kA="),
    (1, "192.168.0.1", "192.168.0.89", 0, 0, "X0snYXpgwiv9TZtqg64sgzUn6Dk=", "03g6IloqVBdcZlPyX8r0hgoE7kA="),
    (1, "10.0.0.1", "10.0.0.2", 11, 0, "YHxtAirCG//0OzkcVAukqKQN9xM=", "XjUibYHaafLQ3pxQeiMI8g25q20="),
    (6, MAIL4, MAIL6, 63943, 25, "/qFaeAR+gFe1KYjMzVDsMv+wgU4=", "eJYTW6AOzFLlSUoESovMjnu7rMw="),
    (6, MAIL6, MAIL4, 25, 63943, "/qFaeAR+gFe1KYjMzVDsMv+wgU4=", "eJYTW6AOzFLlSUoESovMjnu7rMw="),
    (132, "192.168.170.8", "192.168.170.56", 7, 7, "MP2EtRCAUIZvTw6MxJHLV7N7JDs=", "5w3ZRjeKBzqT3zsaEECDGjUbYeg="),
    (6, "128.232.110.120", "66.35.250.204", 34855, 80, "LQU9qZlK+B5F3KDmev6m5PMibrg=", "3V71V58M3Ksw/yuFALMcW0LAHvc="),
    (6, "66.35.250.204", "128.232.110.120", 80, 34855, "LQU9qZlK+B5F3KDmev6m5PMibrg=", "3V71V58M3Ksw/yuFALMcW0LAHvc="),
    (17, "192.168.1.52", "8.8.8.8", 54585, 53, "d/FP5EW3wiY1vCndhwleRRKHowQ=", "Q9We8WO3piVF8yEQBNJF4uiSVrI="),
    (46, "10.1.12.1", "10.1.12.2", None, None, "KHlLkgoJW7ifUTyTSgyVfkFHzKw=", "rYir8gphR31noO9iDRQmF/BteEI="),
    (46, "10.1.12.2", "10.1.12.1", None, None, "KHlLkgoJW7ifUTyTSgyVfkFHzKw=", "rYir8gphR31noO9iDRQmF/BteEI="),
]  # fmt: skip
"""Protocol, addresses, ports (of ICMP type and code), IDs with the seeds 0 and 1: the specification's own baseline."""


def test_the_baseline_of_the_specification() -> None:
    for protocol, source, destination, first, second, of_0, of_1 in BASELINE:
        ends = pack_ip(source), pack_ip(destination)
        for seed, expected in enumerate((of_0, of_1)):
            if first is None or second is None:
                assert community_id_without_ports(*ends, protocol, seed) == f"1:{expected}"
            else:
                assert community_id(*ends, protocol, first, second, seed) == f"1:{expected}"


ADDRESS = st.sampled_from(("10.0.0.1", "10.0.0.2", "255.255.255.255")) | st.sampled_from(
    ("::", "2001:db8::1", "ff02::1")
)
PORT = st.integers(0, 65_535)


@given(st.integers(0, 255), ADDRESS, ADDRESS, PORT, PORT)
def test_both_directions_are_one_flow(protocol: int, source: str, destination: str, first: int, second: int) -> None:
    ends = pack_ip(source), pack_ip(destination)
    expected = community_id(*ends, protocol, first, second)
    if (":" in source) != (":" in destination):
        assert expected is None
        return
    if protocol in PORTED:
        assert community_id_without_ports(*ends, protocol) is None
    else:
        assert community_id_without_ports(*ends, protocol) == expected
    if protocol not in (1, 58):
        assert community_id(*ends[::-1], protocol, second, first) == expected


def test_what_has_no_id() -> None:
    assert community_id(pack_ip("10.0.0.1"), pack_ip("10.0.0.2"), 6, 65_536, 1) is None
    assert community_id(pack_ip("10.0.0.1"), pack_ip("10.0.0.2"), 256, 1, 1) is None
