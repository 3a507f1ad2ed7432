/*
 * prefetch.h: copies of spilled carries that run beside the ops.
 *
 * A HEAD_CARRY of a spilled carry would wait for a copy from the host's memory,
 * and a TAIL for one to it. With a window, memory of the arena for one carry,
 * the copy takes place while other ops compute:
 *
 *     FETCH    begins to copy the carry to the window
 *     ...      other ops
 *     FETCHED  waits for the copy
 *     HEAD     reads the window
 *     TAIL     writes another window
 *     STORE    begins to copy this one to the carry
 *     ...
 *     STORED   waits for the copy
 */
#ifndef VAE_PREFETCH_H
#define VAE_PREFETCH_H

#include "program.h"

/* Places windows in the memory that no tensor of a planned program uses, for
 * the largest carries first, and adds the ops. The arena grows to at most
 * `most` bytes. A copy without room for a window stays as it was. False: out of
 * memory. */
bool vae_program_prefetch(VaeProgram *program, size_t most);

#endif
