"""Traffic: frames built by scapy, the in-kernel generator, ordinary sockets, replayed captures."""
