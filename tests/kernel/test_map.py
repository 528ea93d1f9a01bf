"""Maps as Python mappings, over the real kernel."""

from __future__ import annotations

import pytest

import labkit as lk

SOURCE = """\
#include <uapi/linux/bpf.h>
struct pair { u32 left; u16 right; u16 pad; u64 sum; };
BPF_ARRAY(numbers, u32, 11);
BPF_HASH(table, u32, u64, 13);
BPF_HASH(pairs, struct pair, struct pair, 7);
BPF_PERCPU_ARRAY(counts, u64, 5);
BPF_PERCPU_HASH(wide, u32, struct pair, 5);

int touch(struct xdp_md *ctx)
{
	u32 key = 0;
	struct pair p = {};

	numbers.lookup(&key);
	table.lookup(&key);
	pairs.lookup(&p);
	counts.lookup(&key);
	wide.lookup(&key);
	return XDP_PASS;
}
"""


@pytest.fixture
def maps(lab: lk.Lab) -> dict[str, lk.Map]:
    return dict(lab.load(lk.compile(text=SOURCE)).maps)


def test_arrays_read_whole_in_one_call(maps: dict[str, lk.Map]) -> None:
    numbers = maps["numbers"]
    numbers[3] = 7
    assert numbers[3] == 7
    assert numbers.read() == {i: 7 if i == 3 else 0 for i in range(11)}
    assert len(numbers) == 11
    with pytest.raises(KeyError):
        numbers[11]
    with pytest.raises(lk.MapError, match="11 entries"):
        numbers[11] = 1


def test_hashes_grow_and_shrink(maps: dict[str, lk.Map]) -> None:
    table = maps["table"]
    for key in range(13):
        table[key] = key * key
    assert dict(table.items()) == {key: key * key for key in range(13)}
    with pytest.raises(lk.MapError, match="E2BIG"):
        table[99] = 1
    del table[5]
    assert 5 not in table
    with pytest.raises(KeyError):
        del table[5]


def test_structs_are_dicts(maps: dict[str, lk.Map]) -> None:
    pairs = maps["pairs"]
    key = {"left": 1, "right": 2, "pad": 0, "sum": 3}
    pairs[key] = {"sum": 5}
    assert pairs[key] == {"left": 0, "right": 0, "pad": 0, "sum": 5}
    assert list(pairs.read()) == [(1, 2, 0, 3)]
    with pytest.raises(lk.MapError, match="a dict with left, right"):
        pairs[key] = {"wrong": 1}


def test_per_cpu_values_are_summed_or_listed(maps: dict[str, lk.Map]) -> None:
    counts = maps["counts"]
    cpus = len(counts.per_cpu(0))
    counts[2] = list(range(cpus))
    assert counts.per_cpu(2) == list(range(cpus))
    assert counts[2] == sum(range(cpus))
    counts[2] = 3
    assert counts[2] == 3 * cpus
    wide = maps["wide"]
    wide[1] = {"left": 1, "sum": 2}
    assert wide[1] == {"left": cpus, "right": 0, "pad": 0, "sum": 2 * cpus}


@pytest.mark.parametrize("value", [-1, 1 << 32, "one", None, b"abc", [1]])
def test_values_that_do_not_fit_are_refused(maps: dict[str, lk.Map], value: object) -> None:
    with pytest.raises(lk.MapError, match=r"whole number from 0 to 4294967295|does not fit"):
        maps["numbers"][0] = value
    assert maps["numbers"][0] == 0


def test_a_closed_map_says_so(lab: lk.Lab) -> None:
    program = lab.load(lk.compile(text=SOURCE))
    program.close()
    with pytest.raises(lk.StateError, match="closed"):
        program.maps["numbers"][0]
    assert "closed" in repr(program.maps["numbers"])
