/*
 * interpreter.cpp: see interpreter.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu.h"
#include "interpreter.h"

/* Weak, because a shared library has none. */
extern "C" const char __executable_start[] __attribute__((weak));

static const size_t ROOM = (size_t) 1 << 32;

static VaeInterpreted program;
static FILE *requests, *answers;
static int file;
static uint8_t *memory;
static size_t taken;

static void
fail(const char *what)
{
    fprintf(stderr, "interpreter: %s\n", what);
    exit(1);
}

uint8_t *
vae_emu_interpreter_alloc(size_t bytes)
{
    const void *data;
    size_t size;
    if (!memory)
        return nullptr;
    if (!program.buffer(program.user, 0, &data, &size))
        taken = 0; /* all buffers are freed */
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
            program.name(program.user), l.name,
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
    for (size_t i = 0; program.buffer(program.user, i, &data, &bytes); i++)
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

bool
vae_emu_interpreter_open(const VaeInterpreted *p)
{
    const char *files = getenv("VAE_EMU_INTERPRETER");
    int out, in;
    if (!files)
        return false;
    if (sscanf(files, "%d,%d,%d", &in, &out, &file) != 3 ||
        !(answers = fdopen(in, "r")) || !(requests = fdopen(out, "w")))
        fail("VAE_EMU_INTERPRETER names no open files");
    void *room = mmap(nullptr, ROOM, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, file, 0);
    if (room == MAP_FAILED)
        fail("no memory");
    memory = static_cast<uint8_t *>(room);
    program = *p;
    vae_emu_set_interpreter(run);
    return true;
}
