/*
 * interpreter.h: lets another program (tests/cuda/ptx) run the kernels of an
 * emulated program.
 *
 * Each launch is one line of JSON in a pipe. It has the name of the case, the
 * file and line of the launch, the kernel as an offset from the executable's
 * start, the grid, the threads of a block, the bytes of shared memory, the
 * arguments in hexadecimal digits, and the address and size of each buffer. All
 * buffers are in one mapped file, so that the other program reads and writes
 * them in place. It answers with one line: "done", "emulate", or an error,
 * which ends the process.
 */
#ifndef VAE_EMU_INTERPRETER_H
#define VAE_EMU_INTERPRETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The program whose kernels run. Each function gets `user`. */
typedef struct VaeInterpreted {
    /* Returns the name of the case that launches now. */
    const char *(*name)(void *user);
    /* Writes buffer i of the device; false past the last one. */
    bool (*buffer)(void *user, size_t i, const void **data, size_t *bytes);
    void *user;
} VaeInterpreted;

/* Connects to the other program if VAE_EMU_INTERPRETER names three open files:
 * a pipe that this process reads, a pipe that it writes, and the memory of all
 * buffers. Returns true if it does. */
bool vae_emu_interpreter_open(const VaeInterpreted *program);
/* Allocates from the memory of all buffers. bytes: a multiple of the alignment.
 * The file grows as needed. Returns NULL without an interpreter. */
uint8_t *vae_emu_interpreter_alloc(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
