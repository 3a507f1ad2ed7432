"""Instructions for whole warps, and asynchronous copies.

The PTX ISA has the formulas for the lane and register of each element of a matrix.
Here group = lane / 4 and place = lane % 4.
"""
import numpy as np

from parse import Error

LANES = 32
LANE = np.arange(LANES)


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
    rows = np.zeros((machine.n, 4), np.uint32)
    rows[on] = views[4][at[:, None] // 4 + np.arange(4)]
    matrices = rows.view(np.uint16).reshape(-1, 4, 8, 8)
    if "trans" in parts:
        matrices = matrices.transpose(0, 1, 3, 2)
    # [warp, matrix, lane]
    pairs = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, 4, LANES)
    for i, target in enumerate(registers_of(operands[0])):
        machine.put(target, pairs[:, i].reshape(-1), mask)


F16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)


def words_of(machine, operand):
    """Returns the registers of an operand as [register, thread]."""
    registers = registers_of(operand)
    return np.concatenate([machine.get(r, np.uint32) for r in registers]).reshape(
        len(registers), machine.n)


def numbers(bits, bf16):
    """Converts the bits of fp16 or bf16 to fp64."""
    if bf16:
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(
            np.float64)
    return F16[bits]


def numbers_of(words, kind):
    """Returns words, shape [register, thread], as fp64 [register, warp, group, place,
    number in a register]. TF32 does not read the lower 13 bits of a word."""
    if kind == "tf32":
        values = (words & np.uint32(0xffffe000)).view(np.float32).astype(np.float64)
    else:
        values = numbers(words.view(np.uint16), kind == "bf16")
    return values.reshape(len(words), -1, 8, 4, 1 if kind == "tf32" else 2)


def matrix_a(values):
    """Converts what numbers_of() returned to [warp, row, k]."""
    k_and_half = values.reshape(2, 2, *values.shape[1:])
    a = k_and_half.transpose(2, 1, 3, 0, 4, 5)
    return a.reshape(a.shape[0], 16, -1)


def matrix_b(values):
    """Converts what numbers_of() returned to [warp, k, column]."""
    b = values.transpose(1, 0, 3, 4, 2)
    return b.reshape(b.shape[0], -1, 8)


MMA = {"m16n8k8.row.col.f32.tf32.tf32.f32": "tf32",
       "m16n8k16.row.col.f32.bf16.bf16.f32": "bf16",
       "m16n8k16.row.col.f32.f16.f16.f32": "f16",
       "m16n8k16.row.col.f16.f16.f16.f16": "f16"}


def mma(machine, parts, operands, mask, on):
    """Computes D = A B + C, summed in fp64 and rounded once to the type of C."""
    machine.whole_warps(on, "mma")
    kind = MMA.get(".".join(parts[3:]))
    if not kind:
        raise Error("unknown instruction")
    a, b, c = (words_of(machine, x) for x in operands[1:4])
    product = matrix_a(numbers_of(a, kind)) @ matrix_b(numbers_of(b, kind))
    product = product.reshape(-1, 2, 8, 4, 2)
    if parts[-1] == "f32":
        product = product.transpose(1, 4, 0, 2, 3).reshape(c.shape)
        sums = (c.view(np.float32) + product).astype(np.float32)
    else:
        product = product.transpose(1, 0, 2, 3, 4).reshape(len(c), -1)
        sums = (F16[c.view(np.uint16)] + product).astype(np.float16)
    for target, words in zip(registers_of(operands[0]), sums.view(np.uint32)):
        machine.put(target, words, mask)


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
