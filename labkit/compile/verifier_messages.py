"""What the verifier says, what that means, and what to do: data for ``messages.explain``."""

from __future__ import annotations

from labkit.compile.messages import Entry

__all__ = ["VERIFIER"]

VERIFIER: tuple[Entry, ...] = (
    (
        r"invalid access to packet, off=(-?\d+) size=(\d+), R\d+\(id=\d+,off=-?\d+,r=(\d+)\)",
        "the program reads or writes {1} byte(s) at offset {0} of the packet (or of its "
        "metadata), but only {2} bytes "
        "from its start have been shown to be there",
        "before the access compare with the end: if ((void *)(header + 1) > data_end) return "
        "XDP_PASS; the check must "
        "cover the last byte you use. Metadata ends where the packet begins: compare with data, "
        "not with data_end",
    ),
    (
        r"invalid access to packet|offset is outside of the packet",
        "the program uses bytes of the packet that have not been shown to be there",
        "before the access compare with the end: if ((void *)(header + 1) > data_end) return XDP_PASS",
    ),
    (
        r"infinite loop detected",
        "the verifier went round a loop and came back to exactly the same state: it may never end",
        "give the loop a bound that is a constant, and a counter that changes in each round",
    ),
    (
        r"back-edge from insn",
        "the program jumps backwards, which this kernel's verifier does not allow",
        "unroll the loop (#pragma unroll), or use a kernel from 5.3 on",
    ),
    (
        r"R0 !read_ok",
        "the function can end without having set the value it returns",
        "return XDP_PASS (or another verdict) on every path; clang's warning names the place",
    ),
    (
        r"invalid bpf_context access off=(\d+)",
        "this field of the context (the one at byte {0}) can't be written, or can't be used in this type of program",
        "struct xdp_md is read-only: bpf_xdp_adjust_head, _tail and _meta move the packet's ends",
    ),
    (
        r"variable ctx access|dereference of modified ctx ptr|dereference of modified ctx",
        "the context is used by way of a computed pointer; only its fields, by name, can be read",
        "use ctx->data, ctx->data_end and so on, and hand ctx to helpers as it came",
    ),
    (
        r"programs in a sandbox may not (.+)",
        "the sandbox's gate looks at each program first, and this one could reach beyond the lab: it may not {0}",
        "use helpers for packets, maps and time (env/gate lists them), and a counter in a map in place of printing; "
        "./env/lab --root has no gate",
    ),
    (
        r"(?:program of this type cannot use helper|unknown func) (\S+)",
        "the helper {0} is not there for this type of program",
        "see bpf-helpers(7) for the helpers of your program type; for XDP, bpf_xdp_… and the general ones",
    ),
    (
        r"invalid func (?:unknown)?#?(\S+)",
        "no helper has the number {0} on this kernel",
        "the helper may be newer than this kernel, or the declaration's number is wrong",
    ),
    (
        r"invalid mem access '(?:map_value_or_null|mem_or_null|ptr_\w*or_null_?)'",
        "what a lookup returned is used, and it may be NULL: there may be no such key (likewise where the result of "
        "next_…() was not checked for NULL)",
        "check it first: if (!value) return XDP_PASS",
    ),
    (
        r"invalid mem access '(?:scalar|inv)'",
        "a number (NULL is one) is used as if it were a pointer; the usual ways to get there: the result of "
        "next_…() was not checked for NULL; a packet pointer from before bpf_xdp_adjust_head, _tail or _meta, "
        "which ends them all; a global variable or constant table",
        "check first: if (!udp) return XDP_PASS; after an adjust read ctx->data and ctx->data_end again and check "
        "again; in place of globals use a map",
    ),
    (
        r"unbounded memory access|invalid access to map value|"
        r"(?:min|max) value is outside of the allowed memory",
        "the program goes beyond the end of a map value, or would with some index",
        "limit the index first: if (index >= 4) return XDP_ABORTED, or index & 3",
    ),
    (
        r"math between (\w+) pointer and register with unbounded",
        "a number that may be anything is added to a {0} pointer",
        "limit it first: if (offset > 1500) return XDP_PASS, or offset & 0x7ff; then compare with data_end again",
    ),
    (
        r"pointer arithmetic .*prohibited|prohibited pointer arithmetic|"
        r"bitwise operator .* on pointer",
        "this kind of arithmetic is not allowed on this pointer",
        "keep pointers and numbers apart: add numbers to packet and map-value pointers only",
    ),
    (
        r"BPF program is too large|processed \d+ insn.*limit",
        "the verifier follows every path and every round of a loop, and stops after a million instructions",
        "fewer rounds, fewer branches inside loops; or split the work over programs (tail calls)",
    ),
    (
        r"sequence of \d+ jumps is too complex|too many (?:different )?states",
        "there are more paths through the program than the verifier will follow",
        "take branches out of loops, and lower the loop's bound",
    ),
    (
        r"helper access to the packet is not allowed",
        "a packet pointer is handed to a helper that takes none",
        "hand it ctx, or copy the bytes into a variable and hand that",
    ),
    (
        r"R(\d) type=(\w+) expected=(.*)",
        "argument {0} of the call is of kind {1}, where the helper wants one of: {2}",
        "hand the address of a variable (fp: the stack), of a map value or, where listed, of "
        "packet data; the first "
        "argument of most helpers is ctx itself",
    ),
    (
        r"invalid read from stack R(\d) off=-([1-3](?= size=4)|[1-7](?= size=8)) size=(\d)",
        "argument {0} of the call should be the address of {2} bytes, and its variable has {1}: it is of a smaller type",
        "give it a variable of the type that the declaration says: bpf/common/hints.h for what drivers know, "
        "bpf-helpers(7) for helpers",
    ),
    (
        r"Possibly NULL pointer passed to trusted arg(\d)",
        "the kernel function is to write its answer where argument {0} (counted from 0) points, and that may be nowhere",
        "hand the address of a variable; check the result of a map look-up first: if (!value) return XDP_PASS",
    ),
    (
        r"arg#0 expected pointer to ctx, but got (\w+)",
        "the first argument of this kernel function is the packet's context, and something else was given ({0})",
        "hand it ctx as it came",
    ),
    (
        r"invalid (?:indirect )?read from stack|invalid indirect read|invalid read from stack",
        "a variable is used, or its address handed over, before all of it was set; padding in a structure counts",
        "set it when declaring it: struct key key = {{}};",
    ),
    (
        r"invalid (?:indirect access to|write to|variable-offset .*) stack|invalid stack",
        "the program goes beyond its 512 bytes of stack",
        "check the index of the array on the stack",
    ),
    (
        r"metadata kfuncs require device-bound program",
        "metadata hints come from one device's driver, so the program must be bound to that device when it is loaded",
        'load it for the device: lab.load(spec, device=server["eth0"])',
    ),
    (
        r"Can't attach device-bound programs in generic mode",
        "a program bound to a device runs in its driver, so in native mode only",
        'attach with mode="native"',
    ),
    (
        r"Program bound to different device",
        "the program was loaded for another device than the one it is attached to",
        "load it for this device: lab.load(spec, device=…)",
    ),
    (
        r"func_proto .*incompatible|arg#\d+ pointer type .* must point to|incompatible with kernel",
        "a kernel function is called with a pointer to another type than it is declared with",
        "declare it as the kernel does: bpf_xdp_metadata_rx_hash takes enum xdp_rss_hash_type *",
    ),
    (
        r"Unreleased reference",
        "something a helper acquired (a socket, a ring buffer record) is not given back on every path",
        "release it before each return: bpf_sk_release, or bpf_ringbuf_submit",
    ),
    (
        r"unreachable insn (\d+)",
        "no path leads to instruction {0}",
        "look for a condition that is never true; LLVM usually removes such code, so say how you got here",
    ),
    (
        r"misaligned (?:packet |stack |value )?access",
        "the access is not aligned to its size, and this machine needs that",
        "read it byte by byte, or with __builtin_memcpy",
    ),
)
