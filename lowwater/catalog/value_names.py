"""Names of the numbers in packets, as people read them: protocols, ports, flags, types of DNS and ICMP.

One table for pages, notebook and command line, which show a name beside its number. Numbers are those of IANA's
registries; of ports it has those that people know by name, since any program may use any port.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

PROTOCOL_NUMBERS = {
    "hopopt": 0, "icmp": 1, "igmp": 2, "ipip": 4, "ipv4": 4, "ip-in-ip": 4, "tcp": 6, "egp": 8, "igp": 9, "udp": 17,
    "dccp": 33, "ipv6": 41, "ipv6-route": 43, "ipv6-frag": 44, "rsvp": 46, "gre": 47, "esp": 50, "ah": 51,
    "icmp6": 58, "ipv6-icmp": 58, "icmpv6": 58, "ipv6-nonxt": 59, "ipv6-opts": 60, "eigrp": 88, "ospf": 89,
    "ospfigp": 89, "pim": 103, "vrrp": 112, "l2tp": 115, "sctp": 132, "udplite": 136, "mpls-in-ip": 137,
}  # fmt: skip
"""Name of a protocol above IP, in lower case -> its number; logs have several names for one number."""

_PROTOCOLS = {number: name.upper() for name, number in reversed(PROTOCOL_NUMBERS.items())} | {
    41: "IPv6", 58: "ICMPv6", 136: "UDP-Lite",
}  # fmt: skip
_PORTS = {
    20: "FTP data", 21: "FTP", 22: "SSH", 23: "Telnet", 25: "SMTP", 53: "DNS", 67: "DHCP", 68: "DHCP", 69: "TFTP",
    80: "HTTP", 88: "Kerberos", 110: "POP3", 111: "RPC", 123: "NTP", 135: "MS RPC", 137: "NetBIOS", 138: "NetBIOS",
    139: "NetBIOS", 143: "IMAP", 161: "SNMP", 162: "SNMP trap", 179: "BGP", 389: "LDAP", 443: "HTTPS", 445: "SMB",
    465: "SMTPS", 500: "IKE", 514: "Syslog", 546: "DHCPv6", 547: "DHCPv6", 554: "RTSP", 587: "Submission",
    636: "LDAPS", 853: "DNS over TLS", 873: "rsync", 989: "FTPS data", 990: "FTPS", 993: "IMAPS", 995: "POP3S",
    1194: "OpenVPN", 1433: "MS SQL", 1521: "Oracle", 1812: "RADIUS", 1813: "RADIUS", 1883: "MQTT", 1900: "SSDP",
    2049: "NFS", 2055: "NetFlow", 3306: "MySQL", 3389: "RDP", 3478: "STUN", 4500: "IPsec NAT", 4739: "IPFIX",
    4789: "VXLAN", 5060: "SIP", 5061: "SIPS", 5222: "XMPP", 5353: "mDNS", 5355: "LLMNR", 5432: "PostgreSQL",
    5671: "AMQPS", 5672: "AMQP", 5900: "VNC", 6081: "Geneve", 6343: "sFlow", 6379: "Redis", 8080: "HTTP", 8443: "HTTPS",
    8883: "MQTTS", 9092: "Kafka", 9200: "Elasticsearch", 11211: "memcached", 27017: "MongoDB", 51820: "WireGuard",
}  # fmt: skip
_ETHER_TYPES = {
    0x0800: "IPv4", 0x0806: "ARP", 0x8035: "RARP", 0x8100: "VLAN", 0x86DD: "IPv6", 0x8808: "flow control",
    0x8809: "slow protocols", 0x8847: "MPLS", 0x8848: "MPLS", 0x8863: "PPPoE discovery", 0x8864: "PPPoE",
    0x888E: "802.1X", 0x88A8: "802.1ad", 0x88CC: "LLDP", 0x88E5: "MACsec", 0x88F7: "PTP", 0x8906: "FCoE",
}  # fmt: skip
_DNS_TYPES = {
    1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 13: "HINFO", 15: "MX", 16: "TXT", 28: "AAAA", 29: "LOC",
    33: "SRV", 35: "NAPTR", 39: "DNAME", 41: "OPT", 43: "DS", 44: "SSHFP", 46: "RRSIG", 47: "NSEC", 48: "DNSKEY",
    50: "NSEC3", 52: "TLSA", 64: "SVCB", 65: "HTTPS", 99: "SPF", 251: "IXFR", 252: "AXFR", 255: "ANY", 257: "CAA",
}  # fmt: skip
_DNS_CODES = {
    0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED", 6: "YXDOMAIN", 7: "YXRRSET",
    8: "NXRRSET", 9: "NOTAUTH", 10: "NOTZONE",
}  # fmt: skip
_ARP = {1: "request", 2: "reply", 3: "reverse request", 4: "reverse reply"}
_TLS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}
_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR")


def flag_names(value: int) -> str:
    """Returns the flags of TCP that are set, the lowest first.

    Example:
        >>> flag_names(0x12), flag_names(0)
        ('SYN ACK', 'none')
    """
    return " ".join(name for at, name in enumerate(_FLAGS) if value >> at & 1) or "none"


def _of(names: Mapping[int, str]) -> Callable[[int], str]:
    return lambda value: names.get(value, "")


_NAMES: dict[str, Callable[[int], str]] = {
    "protocol": _of(_PROTOCOLS),
    "port": _of(_PORTS),
    "flags": flag_names,
    "ether_type": _of(_ETHER_TYPES),
    "arp_op": _of(_ARP),
    "dns_type": _of(_DNS_TYPES),
    "dns_rcode": _of(_DNS_CODES),
    "tls_version": _of(_TLS),
}
"""Kind of number -> the name of one; empty without one."""
_KINDS = {
    **dict.fromkeys(("srcPort", "destPort", "inner_srcPort", "inner_destPort"), "port"),
    **dict.fromkeys(("tls_hello_version", "tls_record_version"), "tls_version"),
    "inner_protocol": "protocol",
    "inner_flags": "flags",
}


def kind_of(column: str) -> str:
    """Returns which kind of number a stored column of packets has, if it is one with names; else nothing.

    Example:
        >>> kind_of("inner_srcPort"), kind_of("dns_type"), kind_of("len")
        ('port', 'dns_type', '')
    """
    kind = _KINDS.get(column, column)
    return kind if kind in _NAMES else ""


def value_name(kind: str, value: int) -> str:
    """Returns the name of a number of a kind; empty if it has none.

    Example:
        >>> value_name("protocol", 6), value_name("port", 53), value_name("port", 40_000)
        ('TCP', 'DNS', '')
    """
    return _NAMES[kind](value)
