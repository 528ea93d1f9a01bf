"""What nftables rules dropped, by their own counters: for where no probe may watch the stack.

A rule tells where it counts just before it drops, as in ``udp dport 9999 counter drop``. Rules of received packets only:
base chains at ingress, prerouting, input and forward.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from labkit.kernel.netdev import attributes

__all__ = ["FirewallWitness"]

# include/uapi/linux/netlink.h
_NETLINK_NETFILTER, _NLMSG_ERROR, _NLMSG_DONE = 12, 2, 3
_NLM_F_REQUEST, _NLM_F_DUMP_INTR, _NLM_F_DUMP = 1, 0x10, 0x300
_NFT = 10 << 8  # NFNL_SUBSYS_NFTABLES, include/uapi/linux/netfilter/nfnetlink.h
# enum nf_tables_msg_types and the attributes of chains, rules and expressions: include/uapi/linux/netfilter/nf_tables.h
_GETTABLE, _GETCHAIN, _GETRULE = _NFT | 1, _NFT | 4, _NFT | 7
_TABLE_NAME, _TABLE_HANDLE = 1, 4
_CHAIN_TABLE, _CHAIN_NAME, _CHAIN_HOOK, _HOOK_NUMBER = 1, 3, 4, 1
_RULE_TABLE, _RULE_CHAIN, _RULE_HANDLE, _RULE_EXPRESSIONS = 1, 2, 3, 4
_EXPRESSION_NAME, _EXPRESSION_DATA, _COUNTER_PACKETS, _IMMEDIATE_DATA, _DATA_VERDICT, _VERDICT_CODE = 1, 2, 2, 2, 2, 1
_NF_DROP = 0  # include/uapi/linux/netfilter.h
# By NFPROTO_*: of inet, ip and ip6 NF_INET_{PRE_ROUTING,LOCAL_IN,FORWARD,INGRESS}; of netdev NF_NETDEV_INGRESS.
_INCOMING = {1: (0, 1, 2, 5), 2: (0, 1, 2, 5), 10: (0, 1, 2, 5), 5: (0,)}
_TRIES = 8

Rule = tuple[bytes, bytes]  # numbers of the table and of the rule in it
Found = list[tuple[int, dict[int, bytes]]]  # (protocol family, attributes) of each


class FirewallWitness:
    """Reads the rules in the namespace of the thread that makes it; a rule's count stays when the rule is gone."""

    def __init__(self) -> None:
        self._last: dict[Rule, int] = {}
        self._gone = 0
        try:
            self._socket: socket.socket | None = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
            self._socket.settimeout(5)
        except OSError:  # a kernel without netfilter drops nothing by it
            self._socket = None

    def read(self) -> int:
        """Packets that rules with a counter have dropped since the witness began to look."""
        now = dict(self._counts()) if self._socket is not None else {}
        self._gone += sum(count for rule, count in self._last.items() if rule not in now)
        self._last = now
        return self._gone + sum(now.values())

    def _counts(self) -> Iterator[tuple[Rule, int]]:
        # Other numbers begin anew with a new table, a table's own is never given twice.
        tables = {(family, t[_TABLE_NAME]): t[_TABLE_HANDLE] for family, t in self._dump(_GETTABLE)}
        incoming = set()
        for family, chain in self._dump(_GETCHAIN) if tables else ():
            hook = dict(attributes(chain.get(_CHAIN_HOOK, b"")))
            if hook and int.from_bytes(hook[_HOOK_NUMBER]) in _INCOMING.get(family, ()):
                incoming.add((family, chain[_CHAIN_TABLE], chain[_CHAIN_NAME]))
        for family, rule in self._dump(_GETRULE) if incoming else ():
            table = tables.get((family, rule[_RULE_TABLE]))
            count = _dropped(rule.get(_RULE_EXPRESSIONS, b""))
            if table and count is not None and (family, rule[_RULE_TABLE], rule[_RULE_CHAIN]) in incoming:
                yield (table, rule[_RULE_HANDLE]), count

    def _dump(self, kind: int) -> Found:
        """Every table, chain or rule; none where this kernel has no nftables."""
        for _ in range(_TRIES):
            found, whole = self._dumped(kind)
            if whole:
                break
        return found

    def _dumped(self, kind: int) -> tuple[Found, bool]:
        """The same, and whether nobody changed the rules meanwhile."""
        assert self._socket is not None
        self._socket.send(struct.pack("=IHHIIBBH", 20, kind, _NLM_F_REQUEST | _NLM_F_DUMP, 0, 0, 0, 0, 0))
        found: Found = []
        whole = True
        while True:
            data, at = self._socket.recv(1 << 18), 0
            while at + 16 <= len(data):
                length, answer, flags = struct.unpack_from("=IHH", data, at)
                whole = whole and not flags & _NLM_F_DUMP_INTR
                if answer in (_NLMSG_DONE, _NLMSG_ERROR):
                    return found, whole
                found.append((data[at + 16], dict(attributes(data[at + 20 : at + length]))))
                at += (length + 3) & ~3

    def close(self) -> None:
        """Close the socket. Safe to call again."""
        if self._socket is not None:
            self._socket.close()


def _dropped(expressions: bytes) -> int | None:
    """The counter of a rule that drops what it has just counted; None for any other rule."""
    counted: int | None = None
    for _, each in attributes(expressions):
        expression = dict(attributes(each))
        name, data = expression[_EXPRESSION_NAME], dict(attributes(expression.get(_EXPRESSION_DATA, b"")))
        if name == b"immediate\0" and counted is not None:
            verdict = dict(attributes(dict(attributes(data.get(_IMMEDIATE_DATA, b""))).get(_DATA_VERDICT, b"")))
            return counted if verdict and int.from_bytes(verdict[_VERDICT_CODE]) == _NF_DROP else None
        counted = int.from_bytes(data[_COUNTER_PACKETS]) if name == b"counter\0" else None
    return None
