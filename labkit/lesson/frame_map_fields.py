"""What the bytes of a frame are: its headers one after the other, and every field with its place, value and meaning."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.traffic.frame import Frame, FrameField

__all__ = ["Field", "Part", "fields_of", "parts_of"]

# scapy's layers: the name shown, and the family that gives the colour.
_LAYERS = {
    "Ethernet": ("Ethernet", "link"),
    "802.1Q": ("VLAN tag", "tag"),
    "802.1ad": ("VLAN tag", "tag"),
    "IP": ("IPv4", "network"),
    "IPv6": ("IPv6", "network"),
    "ARP": ("ARP", "network"),
    "UDP": ("UDP", "transport"),
    "TCP": ("TCP", "transport"),
    "ICMP": ("ICMP", "transport"),
}
# scapy's field: the kernel's name (include/uapi/linux/if_ether.h, ip.h, udp.h, tcp.h, icmp.h), and what it means.
_MEANINGS = {
    "Ethernet dst": ("h_dest", "MAC address of the receiver"),
    "Ethernet src": ("h_source", "MAC address of the sender"),
    "Ethernet type": ("h_proto", "EtherType: what follows"),
    "VLAN tag prio": ("priority", "3 bits: how urgent"),
    "VLAN tag dei": ("drop eligible", "1 bit: may be dropped first"),
    "VLAN tag id": ("drop eligible", "1 bit: may be dropped first"),
    "VLAN tag vlan": ("VLAN", "12 bits: number of the virtual LAN"),
    "VLAN tag type": ("h_proto", "EtherType: what follows"),
    "IPv4 version": ("version", "4 bits: 4 for IPv4"),
    "IPv4 ihl": ("ihl", "4 bits: length of this header, in words of 4 bytes"),
    "IPv4 tos": ("tos", "class of service, and congestion marks"),
    "IPv4 len": ("tot_len", "length of the packet from here on, in bytes"),
    "IPv4 id": ("id", "number that fragments of one packet share"),
    "IPv4 flags": ("flags", "3 bits: must not be cut (DF), more fragments follow (MF)"),
    "IPv4 frag": ("frag_off", "13 bits: place of a fragment, in units of 8 bytes"),
    "IPv4 ttl": ("ttl", "hops that are left"),
    "IPv4 proto": ("protocol", "what follows"),
    "IPv4 chksum": ("check", "checksum of this header"),
    "IPv4 src": ("saddr", "address of the sender"),
    "IPv4 dst": ("daddr", "address of the receiver"),
    "IPv4 options": ("options", "options"),
    "UDP sport": ("source", "port of the sender"),
    "UDP dport": ("dest", "port of the receiver"),
    "UDP len": ("len", "length of header and payload, in bytes"),
    "UDP chksum": ("check", "checksum of addresses, header and payload"),
    "TCP sport": ("source", "port of the sender"),
    "TCP dport": ("dest", "port of the receiver"),
    "TCP seq": ("seq", "number of the first byte sent here"),
    "TCP ack": ("ack_seq", "number of the byte expected next"),
    "TCP dataofs": ("doff", "4 bits: length of this header, in words of 4 bytes"),
    "TCP reserved": ("res1", "reserved bits"),
    "TCP flags": ("flags", "S begins, A acknowledges, P pushes, F ends, R resets"),
    "TCP window": ("window", "bytes the sender is ready to receive"),
    "TCP chksum": ("check", "checksum of addresses, header and payload"),
    "TCP urgptr": ("urg_ptr", "end of urgent data"),
    "TCP options": ("options", "options"),
    "ICMP type": ("type", "kind of message"),
    "ICMP code": ("code", "kind within the type"),
    "ICMP chksum": ("checksum", "checksum of header and payload"),
    "ICMP id": ("echo.id", "who asked"),
    "ICMP seq": ("echo.sequence", "number of the question"),
}


@dataclass(frozen=True)
class Part:
    """A header or the payload: ``family`` link, tag, network, transport or payload; ``offset`` from the frame's start."""

    name: str
    family: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.offset + self.length


@dataclass(frozen=True)
class Field:
    """One field of a header, or the payload as a whole; ``length`` in bytes, those it touches."""

    part: str
    name: str
    offset: int
    length: int
    value: str
    meaning: str


def fields_of(frame: bytes) -> tuple[Field, ...]:
    """Every field of every header in order; the payload is left out."""
    return tuple(_field(each) for each in Frame(frame).fields())


def _field(each: FrameField) -> Field:
    part, _ = _LAYERS.get(each.layer, (each.layer, ""))
    name, meaning = _MEANINGS.get(f"{part} {each.name}", (each.name, ""))
    return Field(part, name, each.offset, each.length, each.value or "none", meaning)


def parts_of(frame: bytes) -> tuple[Part, ...]:
    """The headers in order and the rest as payload; together they are the whole frame."""
    parts: list[Part] = []
    for each in Frame(frame).fields():
        name, family = _LAYERS.get(each.layer, (each.layer, "network"))
        end = each.offset + each.length
        last = parts[-1] if parts else None
        second = each.name == "prio" and last is not None and each.offset >= last.end  # a second VLAN tag
        if last is not None and last.name == name and not second:
            parts[-1] = Part(name, family, last.offset, max(last.end, end) - last.offset)
        else:
            parts.append(Part(name, family, each.offset, each.length))
    end = parts[-1].end if parts else 0
    if end < len(frame):
        parts.append(Part("payload", "payload", end, len(frame) - end))
    return tuple(parts)
