"""Packets for each query of `queries/seeds/`, drawn so that it has something to decide."""

from __future__ import annotations

# A minute ends at 20. UDP and ARP are no TCP; a source's packets on both links are one group; 21.5 comes late, by
# exactly the skew, and 20.9 by more, which is refused; 21.2 and 79.9 are one minute, 80 is the next.
BY_SOURCE = """
main1    0.5  tcp  10.0.0.1:1024 > 10.0.0.2:80  SYN
main1    1    udp  10.0.0.1:5353 > 10.0.0.2:53
main1    1.5  arp
control  2    tcp  10.0.0.1:1024 > 10.0.0.3:80  ACK
control 19.9  tcp  10.0.0.2:80 > 10.0.0.1:1024  SYN ACK
main1   20    tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK
main1   21.2  tcp  [2001:db8::1]:1024 > [2001:db8::2]:80  SYN
main1   22.5  tcp  10.0.0.1:1024 > 10.0.0.2:80  FIN ACK
main1   21.5  tcp  10.0.0.9:1024 > 10.0.0.2:80  RST
main1   20.9  tcp  10.0.0.9:1024 > 10.0.0.2:80  RST
control 79.9  tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK
control 80    tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK
"""

# Two packets of a flow in one bucket, from two links; the same flow in the next by 9.9; ICMP has no ports; ARP is no
# DataProtocol; the packet of 9.4 is later than the skew.
BY_FLOW = """
main0    0.5  tcp  10.0.0.1:1024 > 10.0.0.2:80  SYN
main1    2    tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK data=10
control  3    arp
control  4    icmp 10.0.0.9 > 10.0.0.2
main0   10.5  udp  10.0.0.1:5353 > 10.0.0.2:53  data=4
main0    9.9  tcp  10.0.0.1:1024 > 10.0.0.2:80  FIN ACK
main0    9.4  tcp  10.0.0.1:1024 > 10.0.0.2:80  RST
control 12    udp  [2001:db8::1]:5353 > [2001:db8::2]:53  data=4
"""

# A flow on both sides; one on the left alone, from both of its links; one on the right alone; ICMP, whose ports are
# NULL, meets its like; a flow of the left in one bucket and of the right in the next does not meet.
BESIDE = """
main0    0.5  tcp  10.0.0.1:1024 > 10.0.0.2:80  SYN
main1    1    tcp  10.0.0.1:1024 > 10.0.0.2:80  SYN
main1    1.5  tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK
main0    2    udp  10.0.0.1:5353 > 10.0.0.2:53
control  2    udp  10.0.0.1:5353 > 10.0.0.2:53
main1    3    tcp  10.0.0.7:2000 > 10.0.0.2:443  SYN
main0    4    icmp 10.0.0.9 > 10.0.0.2
main1    4    icmp 10.0.0.9 > 10.0.0.2
main0    9.9  tcp  10.0.0.3:3000 > 10.0.0.2:22  SYN
main1   10.1  tcp  10.0.0.3:3000 > 10.0.0.2:22  SYN
"""

# Three packets in the first minute, from two links; ARP does not count; the minute of 20 to 80 has two, the next none,
# and the one after it one.
THREE_LINKS = """
Control   0    tcp  10.0.0.1:1 > 10.0.0.2:80  SYN
Main1     1    udp  10.0.0.1:2 > 10.0.0.2:53
Main1     2    arp
Main1    19.9  icmp 10.0.0.1 > 10.0.0.2
Main2    20    tcp  10.0.0.1:3 > 10.0.0.2:80  SYN
Control  79.9  tcp  10.0.0.1:4 > 10.0.0.2:80  SYN
Main2   140    tcp  10.0.0.1:5 > 10.0.0.2:80  SYN
"""

# A pair; one whose packet of Main2 comes 180 s later, the RANGE of Main1, and one a second too late; one whose packet
# of Main2 is 120 s older, its own RANGE, and one a second too old.
WITHIN_MINUTES = """
Main1    0    udp  10.0.0.1:1 > 10.0.0.2:2
Main2    5    udp  10.0.0.2:2 > 10.0.0.1:1
Main1   10    udp  10.0.0.3:1 > 10.0.0.4:2
Main2   20    udp  10.0.0.6:1 > 10.0.0.5:2
Main2  139    udp  10.0.0.8:1 > 10.0.0.7:2
Main1  140    udp  10.0.0.5:1 > 10.0.0.6:2
Main2  190    udp  10.0.0.9:1 > 10.0.0.3:2
Main2  191    udp  10.0.0.9:1 > 10.0.0.3:2
Main1  260    udp  10.0.0.7:1 > 10.0.0.8:2
"""

# Two questions and two answers of the same seconds are four pairs, as clients are not compared; answered after 120 s;
# after 121; in the same second, which is not after it; a FIN is no question.
ANSWERED = """
S0    1    tcp  10.0.0.1:1001 > 10.0.0.2:80  SYN
S0    1.5  tcp  10.0.0.9:1001 > 10.0.0.2:80  SYN
S1    2.1  tcp  10.0.0.2:80 > 10.0.0.1:1001  SYN ACK
S1    2.2  tcp  10.0.0.2:80 > 10.0.0.9:1001  SYN ACK
S0    5    tcp  10.0.0.1:1002 > 10.0.0.3:81  SYN
S0    6    tcp  10.0.0.1:1003 > 10.0.0.4:82  SYN
S1    6.5  tcp  10.0.0.4:82 > 10.0.0.1:1003  SYN ACK
S0    7    tcp  10.0.0.1:1004 > 10.0.0.5:83  FIN
S1    8    tcp  10.0.0.5:83 > 10.0.0.1:1004  SYN ACK
S1  125    tcp  10.0.0.3:81 > 10.0.0.1:1002  SYN ACK
S1  126    tcp  10.0.0.3:81 > 10.0.0.1:1002  SYN ACK
"""

# Both directions are pairs of their own; ports do not matter; ARP has no addresses and is no DataProtocol.
PAIRS = """
M   0    tcp  10.0.0.1:1 > 10.0.0.2:80  SYN
M   1    tcp  10.0.0.2:80 > 10.0.0.1:1  SYN ACK
M   2    udp  10.0.0.1:2 > 10.0.0.2:53
M  19.9  icmp 10.0.0.1 > 10.0.0.2
M  20    icmp 10.0.0.1 > 10.0.0.2
M  21    arp
"""

PAIRS_OF_TWO = """
M1   0    tcp  10.0.0.1:1 > 10.0.0.2:80  SYN
M2   1    tcp  10.0.0.1:1 > 10.0.0.2:80  SYN
M2   2    udp  10.0.0.2:53 > 10.0.0.1:2
M1  19.9  icmp 10.0.0.1 > 10.0.0.2
M2  20    icmp 10.0.0.1 > 10.0.0.2
M1  21    arp
"""

# Answered on C; on both C and D, which is two rows; in the next ten seconds, which is none; by another port; ICMP meets
# ICMP, as NULL equals NULL.
TEN_SECONDS = """
A   0    tcp  10.0.0.1:1001 > 10.0.0.2:80  SYN
B   1    udp  10.0.0.1:1002 > 10.0.0.2:53
C   2    udp  10.0.0.2:53 > 10.0.0.1:1002
C   9.9  tcp  10.0.0.2:80 > 10.0.0.1:1001  SYN ACK
D   3    udp  10.0.0.2:53 > 10.0.0.1:1002
A   9    tcp  10.0.0.1:1003 > 10.0.0.2:80  SYN
D  10    tcp  10.0.0.2:80 > 10.0.0.1:1003  SYN ACK
B  11    tcp  10.0.0.1:1004 > 10.0.0.2:80  SYN
D  12    tcp  10.0.0.2:81 > 10.0.0.1:1004  SYN ACK
A  13    icmp 10.0.0.1 > 10.0.0.3
D  14    icmp 10.0.0.3 > 10.0.0.1
"""

# Answered a second later, and a second before; two seconds later is none; the minute is that of the packet on M1.
AROUND = """
M1   1.9  tcp  10.0.0.1:1001 > 10.0.0.2:80  SYN
M2   2    tcp  10.0.0.2:80 > 10.0.0.1:1001  SYN ACK
M2   4    udp  10.0.0.2:53 > 10.0.0.1:1002
M1   5.9  udp  10.0.0.1:1002 > 10.0.0.2:53
M1   7    tcp  10.0.0.1:1003 > 10.0.0.2:80  SYN
M2   9    tcp  10.0.0.2:80 > 10.0.0.1:1003  SYN ACK
M1  19.9  tcp  10.0.0.1:1004 > 10.0.0.2:80  SYN
M2  20    tcp  10.0.0.2:80 > 10.0.0.1:1004  SYN ACK
M1  20.5  tcp  10.0.0.1:1005 > 10.0.0.2:80  SYN
M2  20.6  tcp  10.0.0.2:80 > 10.0.0.1:1005  SYN ACK
"""

# Answered in the same second on M2, on the late link, and on both; in the next second, which is none.
SAME_SECOND = """
M1   1.1  tcp  10.0.0.1:1001 > 10.0.0.2:80  SYN
M2   1.9  tcp  10.0.0.2:80 > 10.0.0.1:1001  SYN ACK
M1   2.1  tcp  10.0.0.1:1002 > 10.0.0.2:80  SYN
C    2.0  tcp  10.0.0.2:80 > 10.0.0.1:1002  SYN ACK
M1   3.1  udp  10.0.0.1:1003 > 10.0.0.2:53
M2   3.2  udp  10.0.0.2:53 > 10.0.0.1:1003
C    3.3  udp  10.0.0.2:53 > 10.0.0.1:1003
M1   4.9  udp  10.0.0.1:1004 > 10.0.0.2:53
C    5.0  udp  10.0.0.2:53 > 10.0.0.1:1004
"""

# A packet is in the window of its minute and in the four before it, which end later: counts 1, 2, 2, 3, 3, 2, 1, 1.
FIVE_MINUTES = """
M1   0    tcp  10.0.0.1:1 > 10.0.0.2:80  SYN
M2  20    tcp  10.0.0.1:2 > 10.0.0.2:80  SYN
C  140    tcp  10.0.0.1:3 > 10.0.0.2:80  SYN
M1 141    arp
"""

# A number again is a duplicate, of its own pair and minute only; that of the other direction is none.
NUMBERS = """
main1    0    tcp  10.0.0.1:1 > 10.0.0.2:80  SYN seq=1
main1    1    tcp  10.0.0.1:1 > 10.0.0.2:80  ACK seq=2
main1    2    tcp  10.0.0.1:1 > 10.0.0.2:80  ACK seq=2
control  3    tcp  10.0.0.1:2 > 10.0.0.2:80  ACK seq=1
main1    4    tcp  10.0.0.2:80 > 10.0.0.1:1  ACK seq=2
main1   20    tcp  10.0.0.1:1 > 10.0.0.2:80  ACK seq=2
main1   21    udp  10.0.0.1:1 > 10.0.0.2:80
"""

# The pair that goes on remembers the numbers of the minute before; the one that ended by its FIN does not, nor the one
# that was silent for a minute, which is output once with nothing.
REMEMBERED = """
main1    0    tcp  10.0.0.1:1 > 10.0.0.2:80  SYN seq=1
main1    1    tcp  10.0.0.3:1 > 10.0.0.2:80  SYN seq=1
main1    2    tcp  10.0.0.3:1 > 10.0.0.2:80  FIN ACK seq=2
main1    3    tcp  10.0.0.4:1 > 10.0.0.2:80  SYN seq=1
main1   20    tcp  10.0.0.1:1 > 10.0.0.2:80  ACK seq=1
main1   21    tcp  10.0.0.1:1 > 10.0.0.2:80  ACK seq=2
main1   22    tcp  10.0.0.3:1 > 10.0.0.2:80  SYN seq=1
main1   80    tcp  10.0.0.1:1 > 10.0.0.2:80  ACK seq=2
main1   81    tcp  10.0.0.4:1 > 10.0.0.2:80  ACK seq=1
"""

# Requests for one name from two hosts, in one minute and in the next; one without a name; a POST, and a GET over UDP.
REQUESTS = """
main1    0    tcp  10.0.0.1:1 > 10.0.0.2:80  ACK "GET / HTTP/1.1\\r\\nHost: WWW.EXAMPLE.ORG\\r\\n"
main1    1    tcp  10.0.0.3:1 > 10.0.0.2:80  ACK "GET /a HTTP/1.1\\r\\nHOST: WWW.EXAMPLE.ORG\\r\\n"
control  2    tcp  10.0.0.4:1 > 10.0.0.2:80  ACK "GET /b HTTP/1.1\\r\\nHost: WWW.EXAMPLE.ORG\\r\\n"
main1    3    tcp  10.0.0.1:1 > 10.0.0.5:80  ACK "GET /c HTTP/1.0\\r\\n\\r\\n"
main1    4    tcp  10.0.0.1:1 > 10.0.0.2:80  ACK "POST / HTTP/1.1\\r\\nHost: WWW.EXAMPLE.ORG\\r\\n"
main1    5    udp  10.0.0.1:1 > 10.0.0.2:80  "GET / HTTP/1.1\\r\\nHost: A.B\\r\\n"
main1   20    tcp  10.0.0.1:1 > 10.0.0.2:80  ACK "GET / HTTP/1.1\\r\\nHost: WWW.EXAMPLE.ORG\\r\\n"
"""

# The same second and addresses on both; twice on the right; the next second; turned round.
LENGTHS = """
PKT1  0.1  tcp  10.0.0.1:1 > 10.0.0.2:80  SYN
PKT2  0.9  udp  10.0.0.1:2 > 10.0.0.2:53  data=6
PKT1  1    tcp  10.0.0.1:1 > 10.0.0.3:80  ACK data=1
PKT2  1.1  tcp  10.0.0.1:1 > 10.0.0.3:80  ACK
PKT2  1.2  tcp  10.0.0.1:1 > 10.0.0.3:80  ACK data=10
PKT1  2.9  tcp  10.0.0.1:1 > 10.0.0.2:80  ACK
PKT2  3    tcp  10.0.0.1:1 > 10.0.0.2:80  ACK
PKT2  2    tcp  10.0.0.2:80 > 10.0.0.1:1  ACK
"""

# In the order of their times, whichever link they are of; UDP is no TCP.
TWO_LINKS = """
interface1  0    tcp  10.0.0.1:1 > 10.0.0.2:80  SYN seq=1
interface2  0.5  tcp  10.0.0.2:80 > 10.0.0.1:1  SYN ACK seq=9 ack=2
interface2  0.6  udp  10.0.0.2:53 > 10.0.0.1:1
interface1  1    tcp  10.0.0.1:1 > 10.0.0.2:80  ACK seq=2 ack=10
"""

DRAWINGS = {
    **dict.fromkeys(("000-3.1", "001-aggregation", "004-aggregation"), BY_SOURCE),
    **dict.fromkeys(("000-7.1", "001-merge", "001-overhead"), BY_FLOW),
    **dict.fromkeys(("000-7.2", "001-join"), BESIDE),
    "002-q1": THREE_LINKS,
    "002-q2": WITHIN_MINUTES,
    "002-q3": ANSWERED,
    "002-q4": PAIRS,
    "002-q5": PAIRS_OF_TWO,
    "002-q6": TEN_SECONDS,
    "002-q7": AROUND,
    "002-q8": SAME_SECOND,
    "002-q9": FIVE_MINUTES,
    "004-duplicates": NUMBERS,
    "004-running": REMEMBERED,
    **dict.fromkeys(("004-hostcounts", "004-hostcounts-split", "004-hostnames", "004-hostnames-split"), REQUESTS),
    "004-join": LENGTHS,
    "004-merge": TWO_LINKS,
}
"""Packets by name of the seed."""
