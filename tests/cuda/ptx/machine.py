"""Runs the PTX of a kernel: blocks of threads in warps of 32 lanes. It runs many
blocks at once, and numpy computes all their threads.

The PTX ISA defines the meaning of each instruction. All threads whose next
instruction is the earliest in the text run it together. The machine refuses:

- accesses outside of a buffer or of shared memory, and misaligned accesses;
- reads of shared memory that was not written, or whose copy has not ended;
- a word of shared memory that two warps access, one of them writing, without
  a barrier in between;
- barriers that some threads of a block do not reach;
- instructions for a whole warp that only some of its lanes run;
- copies that have not ended when a thread exits;
- the errors that wgmma.py lists.
"""
import re

import numpy as np

import arithmetic
import warp
import wgmma
from arithmetic import SIGNED, UNSIGNED
from parse import SIZES, TYPES, Error

LANES = 32
# Addresses of shared memory, of a file's constants and of the parameters. Buffers
# keep their addresses in the checked program, which are higher.
SHARED, CONSTANTS, PARAMETERS = 0x1000000, 0x2000000, 0x3000000
RUNS, WAITS, EXITED = 0, 1, 2
MOST_STEPS = 50_000_000

ADDRESS = re.compile(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\w+))?\s*\]")
ADDRESSES = {}  # operands that matched: their base and offset


class Memory:
    """The buffers: a numpy array of bytes at the address `base`. Only the given
    (address, size) may be accessed."""

    def __init__(self, base, data, buffers):
        self.base, self.data = base, data
        self.views = {size: data[:data.size // size * size].view(type)
                      for size, type in UNSIGNED.items()}
        self.allowed = np.zeros(data.size, np.bool_)
        for address, size in buffers:
            self.allowed[address - base:address - base + size] = True

    def index(self, address, size, write):
        """Checks accesses of `size` bytes; returns offsets in bytes."""
        at = address - self.base
        out = (at < 0) | (at > self.data.size - size)
        if not np.count_nonzero(out):
            out = ~(self.allowed[at] & self.allowed[at + (size - 1)])
        if np.count_nonzero(out):
            raise Error(f"{'write' if write else 'read'} of {size} bytes "
                        f"outside of all buffers, at {address[out][0]:#x}")
        return at


class ReadOnly:
    """Constants or parameters."""

    def __init__(self, data):
        self.size = data.size
        self.views = {size: data.view(type) for size, type in UNSIGNED.items()}

    def index(self, at, size):
        """Checks reads; returns what Machine.locate() does."""
        if ((at < 0) | (at > self.size - size)).any():
            raise Error("read outside of constants or parameters")
        return at, self.views


class Shared:
    """Shared memory of `blocks` blocks, in words of four bytes."""

    def __init__(self, blocks, size):
        self.size = size
        self.words = (size + 3) // 4
        n = blocks * self.words
        self.data = np.full(n * 4, 0xff, np.uint8)
        self.views = {size: self.data[:n * 4 // size * size].view(type)
                      for size, type in UNSIGNED.items()}
        self.written = np.zeros(n, np.bool_)
        # The barrier after which a word was last written or read, and the warp.
        self.writer_epoch = np.full(n, -1, np.int64)
        self.writer = np.zeros(n, np.int64)
        self.reader_epoch = np.full(n, -1, np.int64)
        self.reader = np.zeros(n, np.int64)
        self.several = np.zeros(n, np.bool_)
        # The number of multiplications that read a word now, and if they may read
        # it (see wgmma.py).
        self.busy = np.zeros(n, np.int64)
        self.shown = np.zeros(n, np.bool_)
        self.epoch = 0

    def index(self, address, size, block):
        """Checks addresses within each block; returns offsets in bytes."""
        return self.index_at(address - SHARED, size, block)

    def index_at(self, at, size, block):
        out = (at < 0) | (at > self.size - size)
        if np.count_nonzero(out):
            raise Error(f"access outside of {self.size} bytes of shared memory,"
                        f" at {at[out][0]}")
        return at + block * (4 * self.words)

    def _race(self, word, warp_a, warp_b):
        raise Error(f"race: warps {warp_a} and {warp_b} access the shared word "
                    f"{word % self.words}, one writes, no barrier in between")

    def reads(self, word, warps):
        """Notes reads of words, shape [threads, words of each]."""
        if not self.written[word].all():
            raise Error("read of shared memory that was not written")
        bad = ((self.writer_epoch[word] == self.epoch) &
               (self.writer[word] != warps))
        if bad.any():
            self._race(word[bad][0], self.writer[word][bad][0],
                       np.broadcast_to(warps, word.shape)[bad][0])
        warps = np.broadcast_to(warps, word.shape)
        new = self.reader_epoch[word] != self.epoch
        self.reader[word[new]] = warps[new]
        self.several[word[new]] = False
        self.reader_epoch[word] = self.epoch
        self.several[word[self.reader[word] != warps]] = True

    def several_read(self, word):
        self.reader_epoch[word] = self.epoch
        self.several[word] = True

    def reads_by_group(self, word):
        """Notes that a multiplication begins to read words, see wgmma.py."""
        if not self.written[word].all():
            raise Error("read of shared memory that was not written")
        if (self.writer_epoch[word] == self.epoch).any():
            raise Error("a multiplication reads shared memory without a barrier"
                        " behind its write")
        if not self.shown[word].all():
            raise Error("a multiplication reads shared memory without "
                        "fence.proxy.async behind its write")
        self.several_read(word)

    def writes(self, word, warps):
        """Notes writes. Call it before the data change."""
        if self.busy[word].any():
            raise Error("write of shared memory that a multiplication reads")
        self.shown[word] = False
        warps = np.broadcast_to(warps, word.shape)
        bad = ((self.writer_epoch[word] == self.epoch) &
               (self.writer[word] != warps))
        bad |= ((self.reader_epoch[word] == self.epoch) &
                (self.several[word] | (self.reader[word] != warps)))
        self.writer_epoch[word] = self.epoch
        if not bad.any():
            self.writer[word] = warps
            bad = self.writer[word] != warps
        if bad.any():
            self._race(word[bad][0], self.writer[word][bad][0], warps[bad][0])


class Machine:
    """Some blocks of one launch."""

    def __init__(self, kernel, launch, blocks):
        """launch: memory, grid (x, y, z), threads of a block, bytes of shared memory
        and bytes of the arguments. blocks: the indices of the blocks in the grid."""
        self.kernel, self.launch = kernel, launch
        self.memory = launch.memory
        threads = launch.threads
        n = self.n = threads * len(blocks)
        if threads % LANES:
            raise Error(f"blocks of {threads} threads, no whole warps")
        self.shared = Shared(len(blocks), launch.shared)
        self.block = np.repeat(np.arange(len(blocks)), threads)
        self.thread = np.tile(np.arange(threads, dtype=np.uint32), len(blocks))
        self.lane = self.thread % np.uint32(LANES)
        self.warp = np.arange(n) // LANES
        self.registers = {}
        for type in set(kernel.registers.values()):
            names = [name for name, other in kernel.registers.items()
                     if other is type]
            self.registers.update(zip(names, np.zeros((len(names), n), type)))
        # Each operand as an array of each type that was needed: a view of its
        # register, or a constant for each thread.
        self.values = {}
        self.special = self._special(np.asarray(blocks))
        self.symbols = {"vae_shared": SHARED}
        self.constants = self._place(CONSTANTS, kernel.constants.items())
        for (name, size), data in zip(kernel.parameters, launch.arguments,
                                      strict=True):
            if len(data) != size:
                raise Error(f"an argument of {len(data)} bytes for {name} of "
                            f"{size}")
        self.arguments = self._place(PARAMETERS, zip(
            (name for name, _ in kernel.parameters), launch.arguments))
        self.state = np.full(n, RUNS, np.int8)
        self.pc = np.zeros(n, np.int64)
        # Threads that run alone, without those that are further on in the text:
        # their next instruction, and the one where they meet the others. Then
        # `pc` is set only there and at a jump.
        self.next, self.meets = None, 0
        self.copies = warp.Copies(n)
        self.multiplications = wgmma.Multiplications(self)
        self.sums = wgmma.registers(kernel)  # all registers that wgmma uses
        self.time = 0  # instructions so far
        self.active = None  # threads that run the current instruction
        self.everyone = np.ones(n, np.bool_)

    def _place(self, base, items):
        """Puts (name, bytes) at addresses from base on. Returns their bytes."""
        data = bytearray()
        for name, value in items:
            self.symbols[name] = base + len(data)
            data += value + bytes(-len(value) % 16)
        return ReadOnly(np.frombuffer(data, np.uint8))

    def _special(self, blocks):
        x, y, _ = self.launch.grid
        at = [blocks % x, blocks // x % y, blocks // (x * y)]
        special = {"%tid.x": self.thread, "%laneid": self.lane,
                   "%ntid.x": np.full(self.n, self.launch.threads, np.uint32)}
        for i, axis in enumerate("xyz"):
            special["%ctaid." + axis] = at[i].astype(np.uint32)[self.block]
            special["%nctaid." + axis] = np.full(
                self.n, self.launch.grid[i], np.uint32)
        return special

    # Operands.

    def use(self, operand):
        """Notes that an instruction uses a register."""
        if operand in self.sums:
            self.multiplications.used(operand, self.active)

    def get(self, operand, type):
        """Returns the value of an operand for all threads. type: has its size."""
        self.use(operand)
        value = self.values.get((operand, type))
        if value is None:
            value = self.values[operand, type] = self._find(operand, np.dtype(type))
        return value

    def _find(self, operand, type):
        value = self.registers.get(operand)
        if value is None:
            return np.full(self.n, self._literal(operand, type), type)
        if value.dtype.itemsize != type.itemsize:
            raise Error(f"{operand} has another size than {type}")
        return value.view(type)

    def get_narrow(self, operand, type):
        """Returns the value of an operand that may have more bits than the type."""
        value = self.registers.get(operand)
        if value is not None and value.dtype.itemsize > np.dtype(type).itemsize:
            self.use(operand)
            return value.astype(UNSIGNED[np.dtype(type).itemsize]).view(type)
        return self.get(operand, type)

    def _literal(self, operand, type):
        if operand in self.special:
            return self.special[operand]
        if operand in self.symbols:
            return self.symbols[operand]
        if operand[:2] in ("0f", "0d"):
            data = bytes.fromhex(operand[2:])[::-1]
            return np.frombuffer(data, type)[0]
        value = int(operand, 0)
        if type.kind == "b":
            return np.bool_(value)
        value &= (1 << (8 * type.itemsize)) - 1
        return np.frombuffer(
            value.to_bytes(8, "little")[:type.itemsize], type)[0]

    def put(self, operand, value, mask):
        """Sets a register where mask is true (None: everywhere)."""
        if operand == "_":
            return
        self.use(operand)
        register = self.registers[operand]
        if value.dtype is not register.dtype:
            if (value.dtype.itemsize == register.dtype.itemsize and
                    "b" not in (value.dtype.kind, register.dtype.kind)):
                value = value.view(register.dtype)
            else:
                value = value.astype(register.dtype)
        if mask is None:
            register[:] = value
        else:
            np.copyto(register, value, where=mask)

    def address(self, operand):
        if operand not in ADDRESSES:
            base, offset = ADDRESS.match(operand).groups()
            ADDRESSES[operand] = base, int(offset or "0", 0)
        base, offset = ADDRESSES[operand]
        value = self.registers.get(base)
        if value is None:
            value = self.get(base, np.uint64)
        return value.astype(np.int64) + offset

    def of(self, on, values):
        """Returns the values of the threads `on`."""
        return values if on is self.everyone else values[on]

    def whole_warps(self, on, name):
        if on is self.everyone:
            return
        by_warp = on.reshape(-1, LANES)
        if (by_warp != by_warp[:, :1]).any():
            raise Error(f"{name} by some lanes of a warp only")

    # Memory.

    def locate(self, operand, space, size, on, write=False):
        """Checks the accesses of the threads `on`. Returns offsets in bytes, and the
        views to which they belong. Notes reads and writes of shared memory."""
        address = self.of(on, self.address(operand))
        wrong = address & (size - 1)
        if np.count_nonzero(wrong):
            raise Error(f"misaligned access of {size} bytes at "
                        f"{address[wrong != 0][0]:#x}")
        if space == "param":
            return self.arguments.index(address - PARAMETERS, size)
        if space == "global" and not write and address.min() < PARAMETERS:
            return self.constants.index(address - CONSTANTS, size)
        if space == "global":
            return self.memory.index(address, size, write), self.memory.views
        if space != "shared":
            raise Error(f"unknown memory {space}")
        at = self.shared.index(address, size, self.of(on, self.block))
        word = (at >> 2)[:, None] + np.arange((size + 3) // 4)
        warps = self.of(on, self.warp)[:, None]
        if write:
            self.shared.writes(word, warps)
            self.shared.written[word] = True
        else:
            self.shared.reads(word, warps)
        return at, self.shared.views

    def load(self, parts, operands, mask, on):
        type = parts[-1]
        size = SIZES[type]
        targets = warp.registers_of(operands[0])
        at, views = self.locate(operands[1], parts[1], size * len(targets), on)
        view, at = views[size], at // size
        for i, target in enumerate(targets):
            found = view[at + i]
            if on is self.everyone:
                value = found
            else:
                value = np.zeros(self.n, view.dtype)
                value[on] = found
            self.put_wide(target, value.view(TYPES[type]), mask)

    def put_wide(self, target, value, mask):
        """Sets a register that may be wider than the value."""
        if target != "_":
            size = self.registers[target].dtype.itemsize
            if size > value.dtype.itemsize:
                kind = SIGNED if value.dtype.kind == "i" else UNSIGNED
                value = value.astype(kind[size])
        self.put(target, value, mask)

    def store(self, parts, operands, on):
        size = SIZES[parts[-1]]
        sources = warp.registers_of(operands[1])
        at, views = self.locate(operands[0], parts[1], size * len(sources), on,
                                write=True)
        view = views[size]
        for i, source in enumerate(sources):
            value = self.get_narrow(source, TYPES[parts[-1]])
            view[at // size + i] = self.of(on, value.view(view.dtype))

    def add_atomically(self, operands, on):
        if not on.any():
            return
        at = self.memory.index(self.address(operands[1])[on], 8, True)
        if (at % 8).any():
            raise Error("misaligned atomic access")
        np.add.at(self.memory.views[8], at // 8,
                  self.get(operands[2], np.uint64)[on])

    # Control.

    def run(self):
        with np.errstate(all="ignore"):
            self._run()

    def _run(self):
        code = self.kernel.code
        together = 0  # the next instruction of all threads, or None
        for _ in range(MOST_STEPS):
            if together is not None:
                pc, at, on = together, None, self.everyone
            elif self.next is not None:
                pc, at = self.next, on
            else:
                pc, at = self._earliest()
                if pc == len(code):
                    if not self._release():
                        break
                    continue
                on = at
            instruction = code[pc]
            mask, some = at, True
            if instruction.predicate:
                wanted = self.registers[instruction.predicate]
                wanted = ~wanted if instruction.negated else wanted
                mask = wanted if at is None else at & wanted
                some = np.count_nonzero(mask)
                if some == self.n:
                    mask = None
            try:
                if instruction.jumps:
                    together = self._jump(instruction, pc, on, mask, some, together)
                    continue
                if some:
                    self._do(instruction, on if mask is None else mask, mask)
            except Error as error:
                raise Error(f"{error}\n    at: {instruction.text}\n"
                            f"    of: {self.kernel.name}") from None
            if together is not None:
                together = pc + 1
                continue
            self.next = pc + 1 if pc + 1 < self.meets else None
            if self.next is None:
                self.pc[on] = pc + 1
        else:
            raise Error("endless loop in " + self.kernel.name)
        if self.copies.any():
            raise Error("a thread exits while its copies are under way, in " +
                        self.kernel.name)
        if self.multiplications.pending:
            raise Error("a thread exits while its multiplications run, in " +
                        self.kernel.name)

    def _earliest(self):
        """Returns the earliest next instruction of a thread that runs, and the threads
        with it. Sets where they meet others."""
        end = len(self.kernel.code)
        pc = np.where(self.state == RUNS, self.pc, end)
        first = pc.min()
        on = pc == first
        self.meets = np.where(on, end, pc).min()
        return first, on

    def _jump(self, instruction, pc, on, mask, some, together):
        """Runs a jump or a barrier for the threads of mask (None: all), if there are
        some. All other threads `on` continue with the next instruction. Returns the
        next `together`."""
        name = instruction.parts[0]
        if together is not None:
            if not some:
                return together + 1
            if mask is None and name == "bra":
                return self.kernel.labels[instruction.operands[0]]
            if mask is None and name == "bar":
                self.shared.epoch += 1
                return together + 1
        active = on if mask is None else mask
        self.next = None
        self.pc[on] = pc + 1
        if name == "bra":
            self.pc[active] = self.kernel.labels[instruction.operands[0]]
        elif name == "bar":
            self.whole_warps(active, "bar.sync")
            self.state[active] = WAITS
            if (self.state == WAITS).all():
                self._release()
        else:
            self.state[active] = EXITED
        return self._meet()

    def _meet(self):
        """Returns the next instruction of all threads, or None if they differ."""
        first = self.pc[0]
        if np.count_nonzero(self.pc != first) or (self.state != RUNS).any():
            return None
        return int(first)

    def _release(self):
        """Ends the barrier at which all threads wait. Returns false if none wait."""
        waits = (self.state == WAITS).reshape(-1, self.launch.threads)
        if not waits.any():
            return False
        if (waits.any(1) & ~waits.all(1)).any():
            raise Error("some threads of a block exit, others wait at a barrier"
                        " in " + self.kernel.name)
        self.state[self.state == WAITS] = RUNS
        self.shared.epoch += 1
        return True

    def _do(self, instruction, on, mask):
        parts, operands = instruction.parts, instruction.operands
        name = parts[0]
        self.active = on
        self.time += 1
        if name in arithmetic.INSTRUCTIONS:
            arithmetic.INSTRUCTIONS[name](self, parts, operands, mask)
        elif name == "ld":
            self.load(parts, operands, mask, on)
        elif name == "st":
            self.store(parts, operands, on)
        elif name == "atom" and parts[1:] == ["global", "add", "u64"]:
            self.add_atomically(operands, on)
        elif name in warp.INSTRUCTIONS:
            warp.INSTRUCTIONS[name](self, parts, operands, mask, on)
        elif name in wgmma.INSTRUCTIONS:
            wgmma.INSTRUCTIONS[name](self, parts, operands, on)
        else:
            raise Error("unknown instruction")


class Launch:
    """A launch, without its kernel."""

    def __init__(self, memory, grid, threads, shared, arguments):
        self.memory, self.grid, self.threads = memory, grid, threads
        self.shared, self.arguments = shared, arguments

    def count(self):
        return self.grid[0] * self.grid[1] * self.grid[2]


def run(kernel, launch, at_once=16):
    """Runs all blocks of a launch, some of them at once."""
    for first in range(0, launch.count(), at_once):
        blocks = range(first, min(first + at_once, launch.count()))
        Machine(kernel, launch, blocks).run()
