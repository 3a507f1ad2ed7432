"""Instructions for whole warps, and asynchronous copies.

The PTX ISA has the formulas for the lane and register of each element of a matrix.
Here group = lane / 4 and place = lane % 4.
"""
import numpy as np

from arithmetic import UNSIGNED
from parse import Error

LANES = 32
LANE = np.arange(LANES)
GROUP, PLACE = LANE >> 2, LANE % 4


def registers_of(operand):
    return [r.strip() for r in operand.strip("{}").split(",")]


def shfl(machine, parts, operands, mask, on):
    if parts[1:3] not in (["sync", "bfly"], ["sync", "idx"]):
        raise Error("unknown instruction")
    machine.whole_warps(on, "shfl")
    value, with_lane, clamp, members = (
        machine.get(x, np.uint32) for x in operands[1:5])
    if (members[on] != 0xffffffff).any() or (clamp[on] != 31).any():
        raise Error("shfl that names not all lanes")
    lane = with_lane & np.uint32(31)
    if parts[2] == "bfly":
        lane ^= machine.lane
    other = machine.warp * LANES + lane
    machine.put(operands[0].split("|")[0], value[other], mask)


def vote(machine, parts, operands, mask, on):
    if parts[1:3] != ["sync", "ballot"]:
        raise Error("unknown instruction")
    machine.whole_warps(on, "vote")
    votes = machine.get(operands[1], np.bool_).reshape(-1, LANES)
    bits = (votes.astype(np.uint64) << LANE.astype(np.uint64)).sum(
        1, dtype=np.uint64)
    machine.put(operands[0], np.repeat(bits.astype(np.uint32), LANES), mask)


def bar_warp(machine, parts, operands, mask, on):
    """bar.warp.sync; Machine._jump() has bar.sync."""
    machine.whole_warps(on, "bar.warp.sync")


def ldmatrix(machine, parts, operands, mask, on):
    """Matrices have 8x8 numbers of 16 bits. Lane 8 i + r has the address of row r
    of matrix i. Each lane gets numbers 2 place and 2 place + 1 of row group."""
    if parts[1:5] != ["sync", "aligned", "m8n8", "x4"]:
        raise Error("unknown instruction")
    machine.whole_warps(on, "ldmatrix")
    at, views = machine.locate(operands[1], "shared", 16, on)
    rows = np.zeros((machine.n, 8), np.uint16)
    rows[on] = views[2][at[:, None] // 2 + np.arange(8)]
    matrices = rows.reshape(-1, 4, 8, 8)
    if "trans" in parts:
        matrices = matrices.transpose(0, 1, 3, 2)
    # [warp, matrix, lane]
    pairs = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, 4, LANES)
    for i, target in enumerate(registers_of(operands[0])):
        machine.put(target, pairs[:, i].reshape(-1), mask)


def fragment(machine, operand, type):
    """Returns the registers of an operand as [warp, lane, number]."""
    words = np.stack([machine.get(r, np.uint32)
                      for r in registers_of(operand)], 1)
    return words.view(type).reshape(-1, LANES, words.view(type).shape[1])


def places(shape, numbers, row, column):
    """Returns the place of each element of a matrix in the registers of a warp, as
    lane * numbers + number. numbers: those of a lane. row, column: functions of the
    number's index."""
    place = np.empty(shape, np.int64)
    for i in range(numbers):
        place[row(i), column(i)] = LANE * numbers + i
    return place


A_16 = places((16, 16), 8, lambda i: GROUP + (8 if i % 4 >= 2 else 0),
              lambda i: 2 * PLACE + i % 2 + (8 if i >= 4 else 0))
B_16 = places((16, 8), 4, lambda i: 2 * PLACE + i % 2 + (8 if i >= 2 else 0),
              lambda i: GROUP)
A_TF32 = places((16, 8), 4, lambda i: GROUP + (8 if i % 2 else 0),
                lambda i: PLACE + (4 if i >= 2 else 0))
B_TF32 = places((8, 8), 2, lambda i: PLACE + 4 * i, lambda i: GROUP)


def matrix(values, place):
    """Converts [warp, lane, number] to [warp, rows, columns] of fp64."""
    return values.reshape(values.shape[0], -1)[:, place].astype(np.float64)


def mma_16(machine, operands, bf16):
    """Returns A and B of m16n8k16, in fp16 or bf16."""
    def numbers(operand):
        bits = fragment(machine, operand, np.uint16)
        if bf16:
            return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return bits.view(np.float16)
    return matrix(numbers(operands[1]), A_16), matrix(numbers(operands[2]), B_16)


def mma_tf32(machine, operands):
    """Returns A and B of m16n8k8 in TF32, whose lower 13 bits are not read."""
    def numbers(operand):
        bits = fragment(machine, operand, np.uint32) & np.uint32(0xffffe000)
        return bits.view(np.float32)
    return matrix(numbers(operands[1]), A_TF32), matrix(numbers(operands[2]), B_TF32)


def mma(machine, parts, operands, mask, on):
    """Computes D = A B + C, summed in fp64 and rounded once to the type of C."""
    machine.whole_warps(on, "mma")
    kind = ".".join(parts[3:])
    if kind == "m16n8k8.row.col.f32.tf32.tf32.f32":
        a, b = mma_tf32(machine, operands)
    elif kind in ("m16n8k16.row.col.f32.bf16.bf16.f32",
                  "m16n8k16.row.col.f32.f16.f16.f32",
                  "m16n8k16.row.col.f16.f16.f16.f16"):
        a, b = mma_16(machine, operands, "bf16" in kind)
    else:
        raise Error("unknown instruction")
    product = a @ b
    type = np.float32 if parts[-1] == "f32" else np.float16
    c = fragment(machine, operands[3], type)
    sums = np.empty_like(c)
    for i in range(4):
        row, column = GROUP + (8 if i >= 2 else 0), 2 * PLACE + i % 2
        sums[:, :, i] = c[:, :, i] + product[:, row, column]
    words = sums.view(np.uint32)
    for i, target in enumerate(registers_of(operands[0])):
        machine.put(target, words[:, :, i].reshape(-1), mask)


class Copies:
    """The copies of 16 bytes to shared memory that have not ended."""

    def __init__(self, threads):
        self.group = np.zeros(threads, np.int64)  # of the next copies
        self.pending = []  # threads, their groups, words, data

    def any(self):
        return any(thread.size for thread, *_ in self.pending)

    def wait(self, machine, on, left):
        """Ends the copies of the threads `on`, except their last `left`
        groups."""
        shared, rest = machine.shared, []
        for thread, group, word, data in self.pending:
            done = on[thread] & (group < self.group[thread] - left)
            shared.views[4][word[done]] = data[done]
            shared.written[word[done]] = True
            shared.writer_epoch[word[done]] = shared.epoch
            shared.writer[word[done]] = machine.warp[thread[done], None]
            shared.shown[word[done]] = False
            keep = ~done
            if keep.any():
                rest.append((thread[keep], group[keep], word[keep], data[keep]))
        self.pending = rest


def cp(machine, parts, operands, mask, on):
    """cp.async. The target of a copy counts as not written until the thread has
    waited for the copy. A source size of 0 writes zeros."""
    copies = machine.copies
    if parts[2] == "commit_group":
        copies.group[on] += 1
        return
    if parts[2] == "wait_group":
        copies.wait(machine, on, int(operands[0]))
        return
    if parts[1:5] != ["async", "cg", "shared", "global"] or operands[2] != "16":
        raise Error("unknown instruction")
    at, views = machine.locate(operands[0], "shared", 16, on, write=True)
    word = at[:, None] // 4 + np.arange(4)
    machine.shared.written[word] = False
    views[4][word] = 0xffffffff
    size = (machine.get(operands[3], np.uint32)[on] if len(operands) > 3
            else np.full(at.size, 16))
    if ((size != 0) & (size != 16)).any():
        raise Error("cp.async of a part of 16 bytes")
    source = machine.address(operands[1])[on]
    if (source % 16).any():
        raise Error("misaligned source of cp.async")
    data = np.zeros((at.size, 4), np.uint32)
    use = size == 16
    if use.any():
        where = machine.memory.index(source[use], 16, False)
        data[use] = machine.memory.views[4][where[:, None] // 4 + np.arange(4)]
    thread = np.nonzero(on)[0]
    copies.pending.append((thread, copies.group[thread].copy(), word, data))


INSTRUCTIONS = {"shfl": shfl, "vote": vote, "bar": bar_warp,
                "ldmatrix": ldmatrix, "mma": mma, "cp": cp}
