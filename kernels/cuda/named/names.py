"""names.py NM OBJECT FATBIN OUT.c: writes the VaeNamedKernel of each kernel that
OBJECT, the rest of a family's source, starts. FATBIN has the kernels. Both have
names as of C++, but these differ in the types of 64 bits, and in the
mark of a static function."""
import re
import subprocess
import sys

nm, rest, fatbin, out = sys.argv[1:]


def alike(name):
    return name.replace("_ZL", "_Z", 1).replace("y", "m").replace("x", "l")


with open(fatbin, "rb") as file:
    compiled = {alike(n): n for n in
                {n.decode() for n in re.findall(rb"\.text\.(_Z\w+)\0", file.read())}}
said = subprocess.run([nm, "--undefined-only", rest], check=True, capture_output=True,
                      text=True).stdout
started = [n for n in re.findall(r" U (_Z\w+)", said) if alike(n) in compiled]
lost = sorted(set(compiled.values()) - {compiled[alike(n)] for n in started})
if lost:
    sys.exit(f"{fatbin}: nothing in {rest} starts these kernels: {' '.join(lost)}")
with open(out, "w", encoding="ascii") as file:
    file.write(f'''#include "cuda/named/named.h"

/* The file of the kernels. */
__asm__(".data\\n"
        ".balign 16\\n"
        "vae_fatbin_data: .incbin \\"{fatbin}\\"\\n"
        ".text\\n");
extern const char data[] __asm__("vae_fatbin_data");
static VaeFatbin fatbin = {{data, 0}};
''')
    for i, name in enumerate(started):
        file.write(f'''extern VaeNamedKernel k{i} __asm__("{name}");
VaeNamedKernel k{i} = {{&fatbin, "{compiled[alike(name)]}", 0}};
''')
