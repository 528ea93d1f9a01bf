"""What the compiler says, what that means, and what to do: data for ``messages.explain``."""

from __future__ import annotations

from labkit.compile.messages import Entry

__all__ = ["COMPILER", "DIALECT"]

# Searched for in the line at fault: text made for another tool chain.
DIALECT: tuple[Entry, ...] = (
    (
        r"\bSEC\(|\b__(?:uint|type|array)\(",
        "this is libbpf's dialect, where SEC(…) says what a function or a map is for",
        "leave SEC(…) out: the type of program is chosen when it is loaded; a map is declared as "
        'LAB_PERCPU_ARRAY(name, u64, 256), from "common/maps.h"',
    ),
    (
        r"(?i)\bdevmap_hash\b|\bBPF_DEVMAP_HASH\b",
        "BCC has no devmap_hash",
        "use LAB_DEVMAP(name, entries): by index in place of a key",
    ),
)

COMPILER: tuple[Entry, ...] = (
    (
        r"'(bpf/[^']+|vmlinux\.h)' file not found",
        "{0} is a header of libbpf's dialect; here, helpers and map macros are there without it",
        "leave the line out, and include <uapi/linux/bpf.h>",
    ),
    (
        r"(?:declaration of|undeclared) function '(?:bpf_)?printk'",
        "printing from a program is called bpf_trace_printk here",
        'bpf_trace_printk("%d\\n", value); a counter in a map tells more, and costs less',
    ),
    (
        r"subscripted value is not an array",
        "a map is no array in C: its values are reached by a look-up",
        "u64 *value = map.lookup(&key); if (value) (*value)++;",
    ),
    (
        r"use of undeclared identifier '((?:XDP|ETH_P|IPPROTO|TC_ACT)_\w+)'; did you mean '([^']+)'",
        "nothing called {0} has been declared; {1} is spelt much the same",
        "write {1} where that is what you mean; constants XDP_* come from <uapi/linux/bpf.h>, ETH_P_* from "
        "<uapi/linux/if_ether.h>, IPPROTO_* from <uapi/linux/in.h>, TC_ACT_* from <uapi/linux/pkt_cls.h>",
    ),
    (
        r"use of undeclared identifier '([^']+)'; did you mean '([^']+)'",
        "nothing called {0} has been declared; {1} is spelt much the same",
        "write {1} where that is what you mean; else declare {0} above this line, or include its header",
    ),
    (
        r"use of undeclared identifier '(XDP_\w+|ETH_P_\w+|IPPROTO_\w+|TC_ACT_\w+)'",
        "{0} is a constant from a kernel header that this text does not include",
        "XDP_* come from <uapi/linux/bpf.h>, ETH_P_* from <uapi/linux/if_ether.h>, IPPROTO_* from "
        "<uapi/linux/in.h>, TC_ACT_* from <uapi/linux/pkt_cls.h>",
    ),
    (
        r"use of undeclared identifier '([^']+)'",
        "nothing called {0} has been declared before this line",
        "check the spelling; declare the variable, or define the map, above its first use",
    ),
    (
        r"unterminated /\* comment",
        "a comment begins here and never ends: all text behind it belongs to it",
        "put */ where the comment should end; comments can't lie within one another",
    ),
    (
        r"missing terminating '(.)' character",
        "a text or a character begins in this line, and its closing {0} is missing",
        "close it in the same line",
    ),
    (
        r"expected ';'",
        "a statement before this place has no semicolon",
        "put a ; at the end of the line the caret points to",
    ),
    (
        r"'((?:\./)?(?:linux|net|asm)/[^']+)' file not found",
        "{0} is not among the kernel's user-space headers (UAPI), and the lab uses no others",
        "lessons need <uapi/linux/…>: bpf.h, if_ether.h, ip.h, ipv6.h, udp.h, tcp.h, icmp.h, in.h, pkt_cls.h",
    ),
    (
        r"'([^']+)' file not found",
        "there is no {0} beside the file, in bpf/ or among the kernel's user-space headers",
        'lesson headers are included as "common/verdict.h", kernel headers as <uapi/linux/bpf.h>',
    ),
    (
        r"(?:implicit declaration of function|call to undeclared function) '([^']+)'",
        "{0} has not been declared before it is called",
        "check the spelling; a BPF program can call its own functions and the kernel's bpf_… "
        "helpers, not the "
        "C library",
    ),
    (
        r"no member named '(\w+)' in 'struct (\w+)_table_t'",
        "the map {1} has no operation called {0}",
        "maps have lookup, lookup_or_try_init, update, insert, delete, increment and "
        "atomic_increment (no "
        "increment for per-CPU maps); device, CPU and socket maps have redirect_map; program "
        "arrays have call",
    ),
    (
        r"no member named '(?:di|si|dx|cx|r8|r9)' in 'struct (\w+)'",
        "the function has more than one argument, and BCC takes the others for registers of a traced function",
        "a program's function has one argument, struct {0} *ctx; make helper functions static",
    ),
    (
        r"incompatible (?:integer to pointer|pointer to integer) conversion",
        "a number stands where a pointer is wanted, or a pointer where a number is",
        "map operations want addresses: lookup(&key), update(&key, &value); the packet begins at "
        "(void *)(long)ctx->data",
    ),
    (
        r"no member named '(\w+)' in '(?:struct )?(\w+)'",
        "struct {1} has no member {0}",
        "look the structure up in its header; struct xdp_md has data, data_end, data_meta, "
        "ingress_ifindex, "
        "rx_queue_index and egress_ifindex",
    ),
    (
        r"incomplete definition of type 'struct tracepoint__(\w+?)__(\w+)'",
        "this kernel has no such tracepoint, or the tracing file system can't be read",
        "see `labkit doctor` for the tracepoints that are there",
    ),
    (
        r"field has incomplete type '([^']+)'|incomplete definition of type '([^']+)'",
        "the compiler has seen the name of {0}{1} but not its members",
        "define it, or include its header, above this line (struct iphdr: <uapi/linux/ip.h>; "
        "struct ethhdr: <uapi/linux/if_ether.h>, …)",
    ),
    (
        r"unknown type name '([^']+)'",
        "{0} is not a type here",
        "types are u8, u16, u32, u64, __be16, __be32, struct …; structures of packets need their "
        "header, as "
        "<uapi/linux/ip.h>",
    ),
    (
        r"member reference (?:base )?type .* is (?:not )?a pointer",
        "-> is for pointers, . for structures themselves",
        "change -> to . or . to ->",
    ),
    (
        r"redefinition of '([^']+)'",
        "{0} is defined twice",
        "give one of them another name, or guard a header that comes in twice",
    ),
    (
        r"non-void function does not return a value|control reaches end of non-void",
        "the function can end without a verdict",
        "return XDP_PASS (or another verdict) on every path",
    ),
    (
        r"expected '\}'|extraneous closing brace|expected '\)'|expected '\]'",
        "brackets don't pair",
        "find the bracket without its partner; clang's note names the one that was opened",
    ),
    (
        r"expected (?:expression|identifier|function body|parameter|statement)",
        "the compiler can't read the text from here on",
        "look at this line and the one above for a missing bracket, comma or semicolon",
    ),
    (
        r"too (few|many) arguments to function call",
        "too {0} arguments",
        "compare with the function's declaration",
    ),
    (
        r"more than \d+ arguments|too many arguments, bcc only supports",
        "BPF functions take at most five arguments",
        "pass a pointer to a structure",
    ),
    (
        r"Looks like the BPF stack limit|BPF stack limit",
        "local variables of this function need more than 512 bytes, all the stack a BPF program has",
        "keep large data in a per-CPU array map of one entry",
    ),
    (
        r"(?:A call to|unsupported|Unsupported).*(?:built-in|libcall|dynamic)",
        "the compiler wanted to call a C library function here, and there is none in the kernel",
        "for copies and comparisons of fixed length use __builtin_memcpy, or write the loop",
    ),
)
