"""The only code that talks to the kernel: bpf(2), BTF, namespaces, netlink, driver statistics, feature probes."""
