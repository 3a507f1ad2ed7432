"""Instructions that each thread runs for itself, without memory."""
import numpy as np

from parse import TYPES, Error

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
SMALLEST = 2.0**-126  # the smallest normal fp32


def of_two(f, floats=None):
    """Returns an instruction d = f(a, b). floats: f for floating-point types."""
    def instruction(machine, parts, operands, mask):
        type = TYPES[parts[-1]]
        function = floats if floats and parts[-1][0] == "f" else f
        value = function(machine.get(operands[1], type),
                         machine.get(operands[2], type))
        machine.put(operands[0], value.astype(type, copy=False), mask)
    return instruction


def of_one(f):
    """Returns an instruction d = f(a)."""
    def instruction(machine, parts, operands, mask):
        type = TYPES[parts[-1]]
        machine.put(operands[0], f(machine.get(operands[1], type)), mask)
    return instruction


def bits_of(machine, operand, size):
    return machine.get(operand, UNSIGNED[size]).astype(np.uint64)


def mov(machine, parts, operands, mask):
    """Also packs {a, b} into one register, and splits a register."""
    target, source = operands
    type = TYPES[parts[1]]
    size = np.dtype(type).itemsize
    if target.startswith("{"):
        targets = [t.strip() for t in target.strip("{}").split(",")]
        width = size // len(targets)
        value = bits_of(machine, source, size)
        for i, part in enumerate(targets):
            machine.put(part, (value >> np.uint64(8 * width * i)).astype(
                UNSIGNED[width]), mask)
    elif source.startswith("{"):
        sources = [s.strip() for s in source.strip("{}").split(",")]
        width = size // len(sources)
        value = np.zeros(machine.n, np.uint64)
        for i, part in enumerate(sources):
            value |= bits_of(machine, part, width) << np.uint64(8 * width * i)
        machine.put(target, value.astype(UNSIGNED[size]), mask)
    else:
        machine.put(target, machine.get(source, type), mask)


def high_half_64(a, b):
    """Returns the upper 64 bits of products of unsigned 64-bit numbers."""
    low, half = np.uint64(0xffffffff), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)


def mul(machine, parts, operands, mask):
    name = parts[-1]
    type = np.dtype(TYPES[name])
    a, b = machine.get(operands[1], type), machine.get(operands[2], type)
    if name[0] == "f" or "lo" in parts:
        value = (a * b).astype(type)
    elif "hi" in parts and type == np.uint64:
        value = high_half_64(a, b)
    elif "hi" in parts and type.itemsize == 8:
        raise Error("unknown instruction")
    else:
        wide = (SIGNED if name[0] == "s" else UNSIGNED)[2 * type.itemsize]
        value = a.astype(wide) * b.astype(wide)
        if "hi" in parts:
            value = (value >> wide(8 * type.itemsize)).astype(type)
    machine.put(operands[0], value, mask)


def mad(machine, parts, operands, mask):
    if "lo" not in parts:
        raise Error("unknown instruction")
    a, b, c = (machine.get(x, TYPES[parts[-1]]) for x in operands[1:4])
    machine.put(operands[0], a * b + c, mask)


def fma(machine, parts, operands, mask):
    """fp32 products are exact in fp64, so only the sum rounds twice."""
    type = TYPES[parts[-1]]
    wide = np.float64 if type == np.float32 else np.longdouble
    a, b, c = (machine.get(x, type) for x in operands[1:4])
    product = np.multiply(a, b, dtype=wide)
    machine.put(operands[0], (product + c).astype(type), mask)


def divide(machine, parts, operands, mask, rest):
    type = TYPES[parts[-1]]
    a, b = machine.get(operands[1], type), machine.get(operands[2], type)
    if parts[-1][0] == "f":
        machine.put(operands[0], a / b, mask)
        return
    zero = b == 0
    if (zero if mask is None else zero & mask).any():
        raise Error("division by zero")
    b = np.where(zero, type(1), b)
    if parts[-1][0] == "u":
        value = a % b if rest else a // b
    else:  # towards zero
        value = np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64))
        value = value * np.sign(a.astype(np.int64)) * np.sign(b)
        value = a - value * b if rest else value
    machine.put(operands[0], value.astype(type), mask)


def shl(machine, parts, operands, mask):
    type = np.dtype(TYPES[parts[1]])
    value = bits_of(machine, operands[1], type.itemsize)
    count = machine.get(operands[2], np.uint32).astype(np.uint64)
    value = value << np.minimum(count, np.uint64(63))
    if type.itemsize == 8:
        value[count > 63] = 0
    machine.put(operands[0], value.astype(UNSIGNED[type.itemsize]), mask)


def shr(machine, parts, operands, mask):
    type = np.dtype(TYPES[parts[1]])
    count = machine.get(operands[2], np.uint32).astype(np.int64)
    if type.kind == "i":
        value = (machine.get(operands[1], type).astype(np.int64) >>
                 np.minimum(count, 63))
    else:
        value = (bits_of(machine, operands[1], type.itemsize) >>
                 np.minimum(count, 63).astype(np.uint64))
        value[count > 63] = 0
    machine.put(operands[0], value.astype(type), mask)


def bfi(machine, parts, operands, mask):
    """Replaces `length` bits of b, from bit `at` on, by bits of a."""
    size = np.dtype(TYPES[parts[1]]).itemsize
    a, b = (bits_of(machine, x, size) for x in operands[1:3])
    at, length = (machine.get(x, np.uint32).astype(np.uint64)
                  for x in operands[3:5])
    field = ((np.uint64(1) << length) - np.uint64(1)) << at
    value = (b & ~field) | ((a << at) & field)
    machine.put(operands[0], value.astype(UNSIGNED[size]), mask)


def prmt(machine, parts, operands, mask):
    """Chooses four of the eight bytes of a and b."""
    a, b, choice = (bits_of(machine, x, 4) for x in operands[1:4])
    both = a | b << np.uint64(32)
    value = np.zeros(machine.n, np.uint64)
    for i in range(4):
        which = choice >> np.uint64(4 * i)
        if (which & np.uint64(8)).any():
            raise Error("prmt with a sign")
        byte = both >> ((which & np.uint64(7)) * np.uint64(8)) & np.uint64(255)
        value |= byte << np.uint64(8 * i)
    machine.put(operands[0], value.astype(np.uint32), mask)


def popc(machine, parts, operands, mask):
    value = machine.get(operands[1], np.uint32)
    ones = np.unpackbits(value.view(np.uint8).reshape(-1, 4), axis=1).sum(1)
    machine.put(operands[0], ones.astype(np.uint32), mask)


def copysign(machine, parts, operands, mask):
    """Combines the absolute value of b with the sign of a."""
    type = TYPES[parts[1]]
    machine.put(operands[0], np.copysign(machine.get(operands[2], type),
                                         machine.get(operands[1], type)), mask)


def selp(machine, parts, operands, mask):
    type = TYPES[parts[1]]
    machine.put(operands[0], np.where(
        machine.get(operands[3], np.bool_), machine.get(operands[1], type),
        machine.get(operands[2], type)), mask)


COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less,
           "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def setp(machine, parts, operands, mask):
    """A comparison with NaN is false, or true if its name ends with "u"."""
    how, type = parts[1], TYPES[parts[-1]]
    a, b = machine.get(operands[1], type), machine.get(operands[2], type)
    if parts[-1][0] != "f" or how in ("eq", "lt", "le", "gt", "ge"):
        value = COMPARE[how](a, b)  # as in numpy, false with NaN
    else:
        nan = np.isnan(a) | np.isnan(b)
        if how in ("num", "nan"):
            value = nan if how == "nan" else ~nan
        elif how in COMPARE:
            value = COMPARE[how](a, b) & ~nan
        else:
            value = COMPARE[how[:-1]](a, b) | nan
    machine.put(operands[0], value, mask)


def bf16_bits(x):
    """Rounds fp32 to nearest even; NaN becomes 0x7fff."""
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = bits + np.uint64(0x7fff) + (bits >> np.uint64(16) & np.uint64(1))
    return np.where(np.isnan(x), np.uint64(0x7fff),
                    rounded >> np.uint64(16) & np.uint64(0xffff)).astype(np.uint32)


def f16_bits(x):
    bits = x.astype(np.float16).view(np.uint16).astype(np.uint32)
    return np.where(np.isnan(x), np.uint32(0x7fff), bits)


def cvt(machine, parts, operands, mask):
    how = ".".join(parts[1:])
    if how in ("rn.f16x2.f32", "rn.bf16x2.f32"):  # a in the upper half
        narrow = bf16_bits if "bf16x2" in parts else f16_bits
        a, b = (narrow(machine.get(x, np.float32)) for x in operands[1:3])
        value = a << np.uint32(16) | b
    elif how == "rna.tf32.f32":  # to nearest, ties away from zero
        x = machine.get(operands[1], np.float32)
        bits = x.view(np.uint32)
        value = np.where(np.isnan(x), np.uint32(0x7fffffff),
                         bits + np.uint32(0x1000) & np.uint32(0xffffe000))
    elif how == "f32.f16":
        value = machine.get(operands[1], np.uint16).view(np.float16).astype(
            np.float32)
    else:
        value = convert(machine.get_narrow(operands[1], TYPES[parts[-1]]),
                        TYPES[parts[-2]], parts)
    machine.put_wide(operands[0], value, mask)


def convert(value, type, parts):
    """Converts to a type. Floats outside of an integer type become its nearest end."""
    if value.dtype.kind == "f" and np.dtype(type).kind in "iu":
        value = np.trunc(value) if "rzi" in parts else np.rint(value)
        ends = np.iinfo(type)
        high = np.nextafter(float(ends.max) + 1, 0)
        inside = np.clip(np.nan_to_num(value.astype(np.float64)), ends.min, high)
        return np.where(value >= float(ends.max), type(ends.max),
                        inside.astype(type))
    if "rni" in parts or "rzi" in parts:
        value = np.rint(value) if "rni" in parts else np.trunc(value)
    return value.astype(type)


def flushed(x):
    """Replaces denormal numbers by 0, as .ftz does."""
    return np.where(np.abs(x) < SMALLEST, np.copysign(x.dtype.type(0), x), x)


def ex2(machine, parts, operands, mask):
    x = flushed(machine.get(operands[1], np.float32))
    value = np.exp2(x.astype(np.float64)).astype(np.float32)
    machine.put(operands[0], flushed(value), mask)


def rcp(machine, parts, operands, mask):
    type = TYPES[parts[-1]]
    x = machine.get(operands[1], type)
    flush = "ftz" in parts and type == np.float32
    value = (type(1) / (flushed(x) if flush else x)).astype(type)
    machine.put(operands[0], flushed(value) if flush else value, mask)


def cvta(machine, parts, operands, mask):
    machine.put(operands[0], machine.get(operands[1], np.uint64), mask)


INSTRUCTIONS = {
    "add": of_two(np.add), "sub": of_two(np.subtract),
    "and": of_two(np.bitwise_and), "or": of_two(np.bitwise_or),
    "xor": of_two(np.bitwise_xor),
    "min": of_two(np.minimum, np.fmin), "max": of_two(np.maximum, np.fmax),
    "not": of_one(np.invert), "neg": of_one(np.negative), "abs": of_one(np.abs),
    "sqrt": of_one(np.sqrt),
    "mov": mov, "mul": mul, "mad": mad, "fma": fma,
    "div": lambda *a: divide(*a, rest=False),
    "rem": lambda *a: divide(*a, rest=True),
    "shl": shl, "shr": shr, "bfi": bfi, "prmt": prmt, "popc": popc,
    "copysign": copysign, "selp": selp, "setp": setp, "cvt": cvt, "cvta": cvta,
    "ex2": ex2, "rcp": rcp,
}
