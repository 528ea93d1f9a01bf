# SPDX-License-Identifier: BSD-3-Clause
def answer_request(frame, mac, ip):
    """The answer to one frame, as bytes; None for a frame that asks nothing of us."""
    sender, kind = frame[6:12], frame[12:14]
    if kind == b"\x08\x06" and frame[20:22] == b"\x00\x01" and frame[38:42] == ip:
        asks = frame[22:32]  # MAC and IP of whoever asks
        return sender + mac + frame[12:20] + b"\x00\x02" + mac + ip + asks
    version, protocol, to, icmp = frame[14:15], frame[23:24], frame[30:34], frame[34:35]
    if kind == b"\x08\x00" and (version, protocol, to, icmp) == (b"\x45", b"\x01", ip, b"\x08"):
        total = (
            int.from_bytes(frame[36:38], "big") + 0x0800
        )  # the type goes from 8 to 0: the sum is kept
        checksum = (total & 0xFFFF) + (total >> 16)
        head = sender + mac + frame[12:26] + ip + frame[26:30]
        return head + b"\x00\x00" + checksum.to_bytes(2, "big") + frame[38:]
    return None
