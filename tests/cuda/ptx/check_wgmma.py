#!/usr/bin/env python3
"""Checks the interpreter's multiplications by groups of warps. Descriptors and
swizzles must find matrices in the layouts that the PTX ISA has as examples. Wrong
kernels must be refused."""
import sys

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

import machine
import parse
import wgmma

NONE, BY_128, BY_64, BY_32 = range(4)
failures = 0


def expect(good, what):
    global failures
    failures += not good
    print("ok  " if good else "FAIL", what)


def describe(start, lead, stride, mode, base=0):
    return np.uint64((start & 0x3ffff) >> 4 | (lead >> 4) << 16 |
                     (stride >> 4) << 32 | base << 49 | mode << 62)


def units(descriptor, rows, of_row=2, find=wgmma.unit_address):
    """Returns addresses in units of 16 bytes, as [row, unit]."""
    row, unit = np.meshgrid(np.arange(rows), np.arange(of_row), indexing="ij")
    return find(np.array([descriptor]), row, unit)[0] // 16


def layouts():
    """Tests the layouts along K of the ISA's chapter on matrix descriptors, in units
    of 16 bytes."""
    # "K-Major, no-swizzling": ((8,2),(4,4)):((4,32),(1,64)) of TF32. Units of a row
    # are 64 numbers apart, groups of eight rows 32.
    found = units(describe(0, 256, 128, NONE), 16)
    want = [[r % 8 + r // 8 * 8 + u * 16 for u in range(2)] for r in range(16)]
    expect((found == want).all(), "no swizzle")
    # "K-Major, 32B swizzling": ((8,2),(4,4)):((8,64),(1,4)) of TF32, and
    # Swizzle<1,4,3>: in rows 4 to 7 of each eight, the two units are exchanged.
    found = units(describe(0, 16, 256, BY_32), 16)
    want = [[r % 8 * 2 + r // 8 * 16 + (u ^ (r % 8 >= 4)) for u in range(2)]
            for r in range(16)]
    expect((found == want).all(), "32 bytes")
    # Swizzle<2,4,3>: rows 2i and 2i + 1 have unit u at u ^ i.
    found = units(describe(0, 16, 512, BY_64), 16)
    want = [[r % 8 * 4 + r // 8 * 32 + (u ^ r % 8 // 2) for u in range(2)]
            for r in range(16)]
    expect((found == want).all(), "64 bytes")
    # Swizzle<3,4,3>: row r has unit u at u ^ r.
    found = units(describe(0, 16, 1024, BY_128), 16)
    want = [[r % 8 * 8 + r // 8 * 64 + (u ^ r % 8) for u in range(2)]
            for r in range(16)]
    expect((found == want).all(), "128 bytes")
    # The next 16 numbers of the same rows: the address moves within the pattern.
    found = units(describe(32, 16, 1024, BY_128), 8)
    want = [[r * 8 + (2 + u ^ r) for u in range(2)] for r in range(8)]
    expect((found == want).all(), "128 bytes, further along K")
    # A pattern that begins 384 bytes behind a multiple of 1024: base offset 3.
    found = units(describe(384, 16, 1024, BY_128, 3), 8)
    want = [[24 + r * 8 + (u ^ r) for u in range(2)] for r in range(8)]
    expect((found == want).all(), "128 bytes, with a base offset")


def layouts_along_n():
    """Tests the canonical layouts along N of the same chapter, in units of 16 bytes,
    for 16 rows of 32 or more numbers."""
    find = wgmma.unit_address_along_n
    # "No-swizzling": ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
    found = units(describe(0, 256, 640, NONE), 16, 4, find)
    want = [[r % 8 + r // 8 * 16 + u * 40 for u in range(4)] for r in range(16)]
    expect((found == want).all(), "no swizzle, along N")
    # "32B": ((T,2,m),(8,k)):((1,T,LBO),(2T,SBO)), with the swizzle from above
    found = units(describe(0, 512, 256, BY_32), 16, 4, find)
    want = [[r % 8 * 2 + r // 8 * 16 + u // 2 * 32 + (u % 2 ^ (r % 8 >= 4))
             for u in range(4)] for r in range(16)]
    expect((found == want).all(), "32 bytes, along N")
    # "64B": ((T,4,m),(8,k)):((1,T,LBO),(4T,SBO))
    found = units(describe(0, 1024, 512, BY_64), 16, 8, find)
    want = [[r % 8 * 4 + r // 8 * 32 + u // 4 * 64 + (u % 4 ^ r % 8 // 2)
             for u in range(8)] for r in range(16)]
    expect((found == want).all(), "64 bytes, along N")
    # "128B": ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO))
    found = units(describe(0, 8192, 1024, BY_128), 16, 16, find)
    want = [[r % 8 * 8 + r // 8 * 64 + u // 8 * 512 + (u % 8 ^ r % 8)
             for u in range(16)] for r in range(16)]
    expect((found == want).all(), "128 bytes, along N")


# ------------------------------------------------------------------ kernels

N, IMAGE, OF_B = 24, 12288, 8192
# Copies the image to shared memory and stores D = A B + 1. If A is in registers, it
# is loaded from the memory of D first.
BODY = """
    .reg .b32 %r<30>; .reg .b64 %d<9>; .reg .f32 %f<13>; .reg .pred %p<2>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %d1, [image];
    ld.param.u64 %d2, [y];
    ld.param.u64 %d3, [a];
    ld.param.u64 %d4, [b];
    mul.wide.u32 %d5, %r1, 96;
    add.u64 %d1, %d1, %d5;
    mov.u32 %r3, vae_shared;
    mul.lo.u32 %r2, %r1, 96;
    add.u32 %r2, %r2, %r3;
""" + "".join(f"""
    ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%d1+{16 * i}];
    st.shared.v4.u32 [%r2+{16 * i}], {{%r4, %r5, %r6, %r7}};""" for i in range(6)
) + "".join(f"mov.f32 %f{i}, 0f3F800000;" for i in range(12)) + """
    mul.wide.u32 %d6, %r1, 48;
    add.u64 %d2, %d2, %d6;
    ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%d2];
    setp.lt.u32 %p0, %r1, 32;
    setp.ne.u32 %p1, %r1, %r1;
    fence.proxy.async;
    bar.sync 0;
    wgmma.fence.sync.aligned;
    MULTIPLY;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
""" + "".join(f"st.global.f32 [%d2+{4 * i}], %f{i};" for i in range(12)) + """
    ret;
"""


def multiply(n=N, a="%d3", adds="1", transposed="0, 0"):
    sums = ", ".join(f"%f{i}" for i in range(n // 2))
    return (f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{sums}}}, "
            f"{a}, %d4, {adds}, 1, 1, {transposed}")


IN_REGISTERS = multiply(a="{%r20, %r21, %r22, %r23}", transposed="0")


def run(body, image, descriptors, registers=None):
    """Runs a kernel, and returns D as [thread, number]."""
    kernel = parse.Kernel("test", ".param .u64 image, .param .u64 y, "
                          ".param .u64 a, .param .u64 b", body, {})
    base, data = 1 << 32, np.zeros(IMAGE + 48 * 128, np.uint8)
    data[:IMAGE] = image.view(np.uint8)
    d = data[IMAGE:].view(np.float32).reshape(128, 12)
    if registers is not None:
        d[:, :4] = registers.view(np.float32)
    memory = machine.Memory(base, data, [(base, data.size)])
    arguments = [int(x).to_bytes(8, "little")
                 for x in (base, base + IMAGE, *descriptors)]
    machine.run(kernel, machine.Launch(memory, (1, 1, 1), 128, IMAGE, arguments))
    return d


def place(image, matrix, start, mode, lead):
    """Writes a matrix to its place in the ISA's figures."""
    width = wgmma.WIDTH[mode] // 16
    for r in range(matrix.shape[0]):
        for u in range(2):
            if mode == NONE:
                at = r + u * lead // 16
            else:
                at = r * width + (u ^ r % 8 * width // 8)
            first = start // 2 + at * 8
            image[first:first + 8] = matrix[r, 8 * u:8 * u + 8]


def place_along_n(image, matrix, start, mode, lead, stride):
    """Does the same for a matrix whose rows are columns of the figures."""
    width = wgmma.WIDTH[mode] // 16
    for k in range(matrix.shape[1]):
        for u in range(matrix.shape[0] // 8):
            if mode == NONE:
                at = k % 8 + (k // 8 * lead + u * stride) // 16
            else:
                at = (k % 8 * width + (u % width ^ k % 8 * width // 8) +
                      (k // 8 * stride + u // width * lead) // 16)
            first = start // 2 + at * 8
            image[first:first + 8] = matrix[8 * u:8 * u + 8, k]


def make(mode, along_n=False):
    """Returns A and B, the image of both, and their descriptors."""
    values = np.random.default_rng(mode)
    a = values.integers(-8, 9, (64, 16)).astype(np.float16)
    b = values.integers(-8, 9, (N, 16)).astype(np.float16)
    image = np.zeros(IMAGE // 2, np.float16)
    stride = 8 * wgmma.WIDTH[mode]
    place(image, a, 0, mode, 1024)
    if along_n:
        place_along_n(image, b, OF_B, mode, 512, stride)
    else:
        place(image, b, OF_B, mode, 512)
    return a, b, image, (describe(0, 1024, stride, mode),
                         describe(OF_B, 512, stride, mode))


def fragments(d):
    """Returns the numbers of D, or of A, that each thread has."""
    row = np.arange(128) // 32 * 16 + np.arange(128) % 32 // 4
    column = np.arange(128) % 4 * 2
    return np.stack([d[row + i // 2 * 8, 8 * j + column + i % 2]
                     for j in range(d.shape[1] // 8) for i in range(4)], 1)


def products():
    for mode in range(4):
        a, b, image, descriptors = make(mode)
        once = a.astype(np.float32) @ b.astype(np.float32).T
        of_a = np.ascontiguousarray(fragments(a))  # two numbers in a register
        for what, text, want in (
                ("A B + 1", multiply(), once + 1),
                ("A B", multiply(adds="%p1"), once),
                ("2 A B + 1", multiply() + ";" + multiply(), 2 * once + 1),
                ("A B + 1, A in registers", IN_REGISTERS, once + 1)):
            got = run(BODY.replace("MULTIPLY", text), image, descriptors,
                      of_a.view(np.uint32))
            expect((got == fragments(want)).all(),
                   f"{what}, {wgmma.WIDTH[mode]} bytes of a row")
        _, _, image, descriptors = make(mode, along_n=True)
        for what, text in (
                ("A B + 1, B along N", multiply(transposed="0, 1")),
                ("A B + 1, A in registers, B along N",
                 IN_REGISTERS[:-1] + "1")):
            got = run(BODY.replace("MULTIPLY", text), image, descriptors,
                      of_a.view(np.uint32))
            expect((got == fragments(once + 1)).all(),
                   f"{what}, {wgmma.WIDTH[mode]} bytes of a row")


def refusals():
    _, _, image, descriptors = make(BY_64)
    good = BODY.replace("MULTIPLY", multiply())
    fence, wait = "wgmma.fence.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
    commit = "wgmma.commit_group.sync.aligned;"
    store = "st.shared.u32 [%r2], %r1;"
    for old, new, words in (
            (fence, "", "no wgmma.fence since the last use of %f0"),
            (commit, "", "use of %f0 while"),
            (wait, wait.replace("0", "1"), "use of %f0 while"),
            (wait, "mov.f32 %f12, %f5;" + wait, "use of %f5 while"),
            (wait, "mov.f32 %f5, 0f00000000;" + wait, "use of %f5 while"),
            (wait, "ret;", "exits while its multiplications run"),
            (wait, store + wait, "write of shared memory that a mult"),
            (wait, wait + store, "race: warps"),
            ("bar.sync 0;", "", "without a barrier"),
            ("fence.proxy.async;", "", "without fence.proxy.async"),
            ("fence.proxy.async;", "fence.proxy.async;" + store,
             "without fence.proxy.async"),
            ("st.shared.v4.u32 [%r2+16]", "st.shared.v4.u32 [%r2]",
             "that was not written"),
            (commit, ";" + multiply(8) + ";" + commit,
             "no wgmma.fence since the last use of %f0"),
            (multiply(), IN_REGISTERS + "; mov.u32 %r20, 0",
             "use of %r20 while"),
            (multiply(), multiply(transposed="1, 0"), "unknown instruction"),
            ("bar.sync 0;", "bar.sync 0; add.u64 %d3, %d3, %d6;",
             "different descriptors"),
            ("bar.sync 0;", "bar.sync 0; add.u64 %d4, %d4, 512;",
             "outside of 12288 bytes"),
            (fence, "@%p0 bra $after; " + fence, "some warps of a group")):
        assert old in good
        body = good.replace(old, new).replace("ret;\n", "$after: ret;\n")
        try:
            run(body, image, descriptors)
            expect(False, "nothing refused: " + words)
        except parse.Error as error:
            expect(words in str(error), f"refused: {str(error).splitlines()[0]}")


layouts()
layouts_along_n()
products()
refusals()
sys.exit(failures > 0)
