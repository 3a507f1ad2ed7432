"""Multiplications by groups of four warps, whose threads continue meanwhile.

The elements of a matrix have the places in shared memory and in registers that the
PTX ISA defines, for matrices whose rows run along K, and for B also along N. These
errors are refused:

- an access of a sum, or a write of a word that a multiplication reads, before the
  group has waited for the multiplication;
- a multiplication that uses a register without a wgmma.fence after its last other
  access, or after its use as a sum of another shape;
- reads of shared memory that a thread wrote, without fence.proxy.async and a barrier
  after the write;
- multiplications that a thread has not waited for when it exits.
"""
import re

import numpy as np

from parse import Error
from warp import LANES, matrix_a, numbers, numbers_of, registers_of

WARPS = 4  # of a group
ROWS, DEPTH = 64, 16
WIDTH = {0: 16, 1: 128, 2: 64, 3: 32}  # bytes of a row of a swizzle's pattern
SHAPE = re.compile(r"m64n(\d+)k16\.f32\.(bf16|f16)\.(bf16|f16)$")


def field(descriptor, first, bits):
    return (descriptor >> np.uint64(first)).astype(np.int64) & (1 << bits) - 1


def unit_address(descriptor, row, unit):
    """Returns the address in shared memory of 16 bytes of a matrix. Unit 0 of a row
    has its elements 0 to 7, unit 1 has 8 to 15. descriptor: an array; its shape
    begins that of the result."""
    descriptor = np.asarray(descriptor, np.uint64)
    descriptor = descriptor.reshape(descriptor.shape + (1,) * np.ndim(row))
    start, lead, stride = (field(descriptor, at, 14) * 16 for at in (0, 16, 32))
    base, mode = field(descriptor, 49, 3), field(descriptor, 62, 2)
    width = np.array([WIDTH[m] for m in range(4)])[mode]
    at = (start + row % 8 * width + row // 8 * stride +
          unit * np.where(mode == 0, lead, 16))
    turns = np.where(mode == 0, 0, ((at >> 7) - base) & (width // 16 - 1))
    return at ^ (turns << 4)


def unit_address_along_n(descriptor, k, unit):
    """Does the same for a B whose rows run along N: unit u of row k has columns 8 u
    to 8 u + 7."""
    descriptor = np.asarray(descriptor, np.uint64)
    descriptor = descriptor.reshape(descriptor.shape + (1,) * np.ndim(k))
    start, lead, stride = (field(descriptor, at, 14) * 16 for at in (0, 16, 32))
    base, mode = field(descriptor, 49, 3), field(descriptor, 62, 2)
    width = np.array([WIDTH[m] for m in range(4)])[mode]
    units = width // 16
    plain = mode == 0  # the two strides then exchange their names
    at = (start + k % 8 * width + k // 8 * np.where(plain, lead, stride) +
          unit % units * 16 + unit // units * np.where(plain, stride, lead))
    turns = np.where(plain, 0, ((at >> 7) - base) & (units - 1))
    return at ^ (turns << 4)


def registers(kernel):
    """Returns the registers of a kernel that are sums, or that hold A."""
    return {register for instruction in kernel.code
            if instruction.parts[:2] == ["wgmma", "mma_async"]
            for operand in instruction.operands[:2] if operand.startswith("{")
            for register in registers_of(operand)}


class Multiplications:
    """Multiplications that the groups of a machine started and did not wait for."""

    def __init__(self, machine):
        threads = machine.n
        self.machine = machine
        self.group = np.zeros(threads // LANES, np.int64)  # next one of each warp
        self.pending = []  # [warps, which wait, their groups, words, registers]
        self.sums = {}  # register: number of multiplications, for each warp
        self.shapes = {}  # register: the last shape of its sums, and its time
        self.accesses = {}  # register: the time of its last other use
        self.fenced = np.full(threads, -1, np.int64)  # time of the last fence

    def used(self, register, active):
        """Notes another instruction's use of a register."""
        self.accesses[register] = self.machine.time
        many = self.sums.get(register)
        if (many is not None and many.any() and
                many[self.machine.warp[active]].any()):
            raise Error(f"use of {register} while a multiplication writes it")

    def check(self, registers, on, shape):
        """Refuses registers without a fence. shape: that of the sums; None: of A."""
        fenced = self.fenced[on].min()
        for register in registers:
            last = self.accesses.get(register, 0)
            before, when = self.shapes.get(register, (shape, 0))
            if before != shape:
                last = max(last, when)
            if fenced < last:
                raise Error(f"no wgmma.fence since the last use of {register}")

    def start(self, on, words, registers):
        warps = np.nonzero(on.reshape(-1, LANES).any(1))[0]
        for of_group in words:
            self.machine.shared.busy[of_group] += 1
        for register in registers:
            many = self.sums.setdefault(register, np.zeros(self.group.size, np.int64))
            many[warps] += 1
        self.pending.append([warps, np.ones(warps.size, bool),
                             self.group[warps].copy(), words, registers])

    def wait(self, on, left):
        """Ends the multiplications of the warps `on`, except their last `left`
        batches."""
        warp_on = on.reshape(-1, LANES).any(1)
        for entry in self.pending:
            warps, waits, group, words, registers = entry
            done = (waits & warp_on[warps] &
                    (group < self.group[warps] - left))
            if not done.any():
                continue
            for register in registers:
                self.sums[register][warps[done]] -= 1
            waits[done] = False
            # All warps of a group read all of its words.
            ends = (~waits & done).reshape(-1, WARPS)
            for of_group in words[ends.any(1) & ~waits.reshape(-1, WARPS).any(1)]:
                self.machine.shared.busy[of_group] -= 1
                self.machine.shared.several_read(of_group)
        self.pending = [e for e in self.pending if e[1].any()]


def whole_groups(machine, on, name):
    size = WARPS * LANES
    whole = machine.launch.threads % size == 0
    if not whole or not np.isin(on.reshape(-1, size).sum(1), (0, size)).all():
        raise Error(f"{name} by some warps of a group only")


def read_matrix(machine, operand, rows, on, bf16, along_n=False):
    """Returns numbers as [groups, rows, DEPTH], and the words of shared memory that
    hold them as [groups, ...]."""
    shared = machine.shared
    by_group = machine.get(operand, np.uint64)[on].reshape(-1, WARPS * LANES)
    if (by_group != by_group[:, :1]).any():
        raise Error("threads of a group have different descriptors")
    shape = (DEPTH, rows // 8) if along_n else (rows, 2)
    row, unit = np.meshgrid(*map(np.arange, shape), indexing="ij")
    find = unit_address_along_n if along_n else unit_address
    at = find(by_group[:, 0], row, unit)
    block = machine.block[on].reshape(-1, WARPS * LANES)[:, 0]
    at = shared.index_at(at, 16, block[:, None, None])
    word = (at[..., None] // 4 + np.arange(4)).reshape(at.shape[0], -1)
    shared.reads_by_group(word)
    values = numbers(shared.views[4][word].view(np.uint16), bf16)
    if along_n:
        return values.reshape(-1, DEPTH, rows).transpose(0, 2, 1), word
    return values.reshape(-1, rows, DEPTH), word


def a_of_registers(machine, operand, on, bf16):
    """Returns A, which each warp holds as it holds A of mma's m16n8k16."""
    words = np.stack([machine.registers[r].view(np.uint32)
                      for r in registers_of(operand)])
    a = matrix_a(numbers_of(words, "bf16" if bf16 else "f16"))
    return a[on.reshape(-1, LANES).any(1)].reshape(-1, ROWS, DEPTH)


def multiply(machine, parts, operands, on):
    """Computes D = A B + D or, if scale-d is false, D = A B. Sums in fp64, and rounds
    once to fp32."""
    state = machine.multiplications
    shape = SHAPE.match(".".join(parts[4:]))
    if parts[2:4] != ["sync", "aligned"] or not shape or shape[2] != shape[3]:
        raise Error("unknown instruction")
    n, bf16 = int(shape[1]), shape[2] == "bf16"
    sums = registers_of(operands[0])
    of_a = registers_of(operands[1]) if operands[1].startswith("{") else []
    scales = operands[4:6]
    transposed = operands[6:]
    if (n % 8 or not 8 <= n <= 256 or len(sums) != n // 2 or
            scales != ["1", "1"] or
            len(transposed) != (1 if of_a else 2) or
            transposed[:-1] not in ([], ["0"]) or
            transposed[-1] not in ("0", "1")):
        raise Error("unknown instruction")
    state.check(sums, on, shape[0])
    state.check(of_a, on, None)
    b, words = read_matrix(machine, operands[2], n, on, bf16,
                           transposed[-1] == "1")
    if of_a:
        a = a_of_registers(machine, operands[1], on, bf16)
    else:
        a, more = read_matrix(machine, operands[1], ROWS, on, bf16)
        words = np.concatenate([words, more], 1)
    product = a @ np.ascontiguousarray(b.transpose(0, 2, 1))
    # [warp, half, group, eight columns, place, number], as registers of threads
    product = product.reshape(-1, 2, 8, n // 8, 4, 2)
    values = product.transpose(3, 1, 5, 0, 2, 4).reshape(len(sums), -1)
    adds = machine.get(operands[3], np.bool_)[on]
    for name, value in zip(sums, values):
        register = machine.registers[name]
        register[on] = np.where(adds, register[on] + value, value)
        state.shapes[name] = shape[0], machine.time
    state.start(on, words, sums + of_a)


def wgmma(machine, parts, operands, on):
    what, state = parts[1], machine.multiplications
    whole_groups(machine, on, "wgmma." + what)
    if what == "mma_async":
        multiply(machine, parts, operands, on)
    elif what == "fence":
        state.fenced[on] = machine.time
    elif what == "commit_group":
        state.group[on.reshape(-1, LANES).any(1)] += 1
    elif what == "wait_group":
        state.wait(on, int(operands[0]))
    else:
        raise Error("unknown instruction")


def fence(machine, parts, _, on):
    """fence.proxy.async: after a barrier, multiplications may read the words that
    these warps wrote."""
    if parts[1:] not in (["proxy", "async"], ["proxy", "async", "shared::cta"]):
        raise Error("unknown instruction")
    machine.whole_warps(on, "fence")
    shared = machine.shared
    shared.shown |= on.reshape(-1, LANES).any(1)[shared.writer]


INSTRUCTIONS = {"wgmma": wgmma, "fence": fence}
