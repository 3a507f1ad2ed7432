/*
 * interpreter.cpp: lets another program run the kernels of a check.
 *
 * Each launch is one line of JSON in a pipe. It has the name of the case, the
 * file and line of the launch, the kernel as an offset from the executable's
 * start, the grid, the threads of a block, the bytes of shared memory, the
 * arguments in hexadecimal digits, and the address and size of each buffer. All
 * buffers are in one mapped file, so that the other program reads and writes
 * them in place. It answers with one line: "done", "emulate", or an error,
 * which ends the check.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "emu.h"

extern "C" const char __executable_start[];

static const size_t ROOM = (size_t) 1 << 32;

static const VaeCheck *check;
static FILE *requests, *answers;
static int file;
static uint8_t *memory;
static size_t taken;

static void
fail(const char *what)
{
    fprintf(stderr, "check: interpreter: %s\n", what);
    exit(1);
}

uint8_t *
vae_check_interpreter_alloc(size_t bytes)
{
    if (!memory)
        return nullptr;
    if (!check->blocks)
        taken = 0;
    if (bytes > ROOM - taken || ftruncate(file, (off_t) (taken + bytes)))
        fail("no memory");
    uint8_t *p = memory + taken;
    taken += bytes;
    return p;
}

static void
send(const VaeEmuLaunch &l)
{
    fprintf(requests,
            "{\"case\": \"%s\", \"at\": \"%s\", \"kernel\": %td, \"grid\": "
            "[%u, %u, %u], "
            "\"threads\": %u, \"shared\": %zu, \"base\": %" PRIuPTR
            ", \"args\": [",
            check->name, l.name,
            static_cast<const char *>(l.entry) - __executable_start, l.grid.x,
            l.grid.y, l.grid.z, l.block, l.smem,
            reinterpret_cast<uintptr_t>(memory));
    for (size_t i = 0; i < l.args.size(); i++) {
        fputs(i ? ", \"" : "\"", requests);
        for (const char byte : l.args[i])
            fprintf(requests, "%02x", (unsigned char) byte);
        fputc('"', requests);
    }
    fputs("], \"buffers\": [", requests);
    const void *data;
    size_t bytes;
    for (size_t i = 0; vae_check_block(check, i, &data, &bytes); i++)
        fprintf(requests, "%s[%" PRIuPTR ", %zu]", i ? ", " : "",
                reinterpret_cast<uintptr_t>(data), bytes);
    fputs("]}\n", requests);
    if (fflush(requests))
        fail("the pipe is closed");
}

static bool
run(const VaeEmuLaunch &l)
{
    char answer[4096];
    send(l);
    if (!fgets(answer, sizeof answer, answers))
        fail("no answer");
    if (!strcmp(answer, "emulate\n"))
        return false;
    if (strcmp(answer, "done\n"))
        fail(answer);
    return true;
}

void
vae_check_interpreter_open(const VaeCheck *t)
{
    const char *files = getenv("VAE_CHECK_INTERPRETER");
    int out, in;
    if (!files)
        return;
    if (sscanf(files, "%d,%d,%d", &in, &out, &file) != 3 ||
        !(answers = fdopen(in, "r")) || !(requests = fdopen(out, "w")))
        fail("VAE_CHECK_INTERPRETER names no open files");
    void *p = mmap(nullptr, ROOM, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_NORESERVE, file, 0);
    if (p == MAP_FAILED)
        fail("no memory");
    memory = static_cast<uint8_t *>(p);
    check = t;
    vae_emu_set_interpreter(run);
}
