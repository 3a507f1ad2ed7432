/*
 * emu.h: the part of CUDA's execution model that the kernels use, on a CPU.
 *
 * Blocks run one after another. The threads of a block are fibers. A fiber
 * stops where it waits for other threads: at a barrier for the whole block, or
 * at a shuffle or another warp function for the warp. The order of blocks and
 * threads changes from launch to launch (ascending, descending, random), so
 * that a missing barrier shows. The process ends with a message that names the
 * launch, the thread and the line if
 * - threads wait at different barriers, or lanes at different warp functions;
 * - a thread has returned while others of its block or warp wait for it;
 * - a thread returns before its copies to shared memory are waited for;
 * - a warp function does not name all lanes of its warp;
 * - an access of 16 bytes has an address that is no multiple of 16;
 * - shared memory is written past its end (with AddressSanitizer: accessed).
 *
 * At a block's start shared memory is filled with 0xff, which is NaN.
 */
#ifndef VAE_EMU_H
#define VAE_EMU_H

#include <functional>
#include <string>
#include <vector>

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
        : x(x_), y(y_), z(z_)
    {
    }
};

#include "named/words.h"

/* ------------------------------------------------------- launching */

/*
 * Sets the function that schedules launches; NULL: launches run at once. submit
 * gets the stream and a task, and must call run(task) exactly once.
 */
typedef void (*VaeEmuSubmit)(void *stream, void (*run)(void *task), void *task);
extern "C" void vae_emu_set_submit(VaeEmuSubmit submit);

/* Sets a function that gets the kernel of each launch. The launch then does not
 * run. NULL: launches run. */
typedef void (*VaeEmuLook)(const void *kernel, const char *name);
extern "C" void vae_emu_set_look(VaeEmuLook look);

/* Sets the result of vae_launch_capability(); 90 by default. */
extern "C" void vae_emu_set_capability(int capability);

struct VaeEmuLaunch {
    const char *name; /* file and line of the launch */
    const void *entry;
    dim3 grid;
    unsigned block;
    size_t smem;
    std::function<void()> kernel;
    std::vector<std::string> args; /* the bytes of each argument */
};

void vae_emu_submit(void *stream, const VaeEmuLaunch &launch);

/* Runs a launch in place of the emulation. Returns false if the emulation
 * should run it. NULL, the default: the emulation runs all launches. */
typedef bool (*VaeEmuInterpreter)(const VaeEmuLaunch &launch);
void vae_emu_set_interpreter(VaeEmuInterpreter interpreter);

template <typename T> struct VaeSame {
    typedef T Type;
};

template <typename... P>
static inline void
vae_launch_named(const char *name, void (*kernel)(P...), dim3 grid,
                 unsigned block, size_t smem, void *stream,
                 typename VaeSame<P>::Type... args)
{
    const void *entry = reinterpret_cast<const void *>(kernel);
    vae_emu_submit(
        stream, VaeEmuLaunch{name,
                             entry,
                             grid,
                             block,
                             smem,
                             [=]() { kernel(args...); },
                             {std::string(reinterpret_cast<const char *>(&args),
                                          sizeof args)...}});
}

#define vae_launch(...) vae_launch_named(VAE_EMU_HERE, __VA_ARGS__)

int vae_launch_capability(void);

#endif
