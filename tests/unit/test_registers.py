"""Registers at a refusal, from the verifier's own log. The logs are Linux 6.18's; tests/kernel has the live ones."""

from __future__ import annotations

import pytest

from labkit.compile.lines import Place
from labkit.compile.register_words import in_words
from labkit.compile.registers import last_path, registers_at_the_end

LOG = """\
0: R1=ctx() R10=fp0
0: (b7) r0 = 2                        ; R0=2
1: (61) r2 = *(u32 *)(r1 +4)          ; R1=ctx() R2=pkt_end()
2: (61) r6 = *(u32 *)(r1 +0)          ; R1=ctx() R6=pkt(r=0)
3: (bf) r3 = r6                       ; R3=pkt(r=0) R6=pkt(r=0)
4: (07) r3 += 14                      ; R3=pkt(off=14,r=0)
5: (2d) if r3 > r2 goto pc+9          ; R2=pkt_end() R3=pkt(off=14,r=14)
6: (85) call bpf_xdp_adjust_head#44   ; R0=scalar()
7: (55) if r0 != 0x0 goto pc+2        ; R0=0
8: (95) exit

from 7 to 10: R0=scalar(umin=1) R6=scalar() R10=fp0
10: (73) *(u8 *)(r6 +13) = r0
R6 invalid mem access 'scalar'
"""
PLACES = [Place(0, "f.c", 3, "\tu8 *data = x;"), Place(5, "f.h", 9, "\tif (at > end)"), Place(7, "f.c", 5, "\tif (r)")]


def test_the_path_that_was_refused_and_no_other() -> None:
    path = last_path(LOG)
    assert path.visited == [0, 1, 2, 3, 4, 5, 6, 7, 10]
    assert path.code == "*(u8 *)(r6 +13) = r0"
    found = {each.name: each for each in registers_at_the_end(path, "R6 invalid mem access 'scalar'", PLACES, "f.c")}
    assert list(found) == ["R0", "R6"], "R10 is the same in every program"
    assert found["R0"].words == "a number of at least 1"
    assert (found["R0"].line, found["R0"].text) == (None, "f.h, line 9: if (at > end)"), (
        "a header's line is not the text's"
    )
    assert found["R6"].named


def test_a_comparison_holds_for_every_pointer_and_a_move_of_the_ends_ends_them() -> None:
    lines = LOG.splitlines()
    assert last_path("\n".join(lines[:7])).states["R6"] == "pkt(r=14)", "the log tells of R3 alone"
    moved = last_path("\n".join(lines[:8]))
    assert "R3" not in moved.states, "a call leaves nothing in R1 to R5"
    found = registers_at_the_end(moved, "R6 invalid mem access", PLACES, "f.c")
    assert (
        found[-1].words == "pointed into the packet until bpf_xdp_adjust_head moved its ends; now no more than a number"
    )


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("ctx()", "the context"),
        ("2", "the number 2"),
        ("0xfffffffc", "the number 4,294,967,292"),
        ("-1", "the number -1"),
        ("scalar()", "may be anything"),
        ("scalar(smin=smin32=0,smax=umax=smax32=umax32=255,var_off=(0x0; 0xff))", "from 0 to 255"),
        ("scalar(smin=0,smax=umax=0xffffffff,var_off=(0x0; 0xffffffff))", "of 32 bits"),
        ("scalar(smin=-5,smax=7)", "from -5 to 7"),
        ("fp-4", "4 bytes below its end"),
        ("fp0", "where the stack ends"),
        ("pkt(r=0)", "start of the packet (data); no byte"),
        ("pkt(off=14,r=34)", "14 bytes into the packet; 34 bytes from its start have"),
        (
            "pkt(id=2,off=4,r=1,smin=0,smax=umax=60,var_off=(0x0; 0x3c))",
            "4 bytes and 0 to 60 bytes on; 1 byte from that",
        ),
        ("pkt_meta(off=4,r=0)", "4 bytes into the metadata"),
        ("pkt_end()", "where the packet ends"),
        ("map_ptr(map=seen,ks=4,vs=8)", "the map seen"),
        ("map_value(map=seen,ks=4,vs=8,off=4)", "a value of the map seen (8 bytes), 4 bytes into it"),
        ("map_value_or_null(id=1,map=seen,ks=4,vs=8)", "or NULL where there is no such key"),
        ("ringbuf_mem_or_null(id=3,sz=8)", "a record reserved in a ring buffer, or NULL"),
        ("trusted_ptr_task_struct()", "a pointer of the kind trusted_ptr_task_struct"),
        ("inv(id=0,umax_value=255,var_off=(0x0; 0xff))", "a number"),
        ("???", "something"),
    ],
)
def test_every_state_has_words(state: str, words: str) -> None:
    assert words in in_words(state)
