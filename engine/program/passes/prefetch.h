/*
 * prefetch.h: copies spilled carries while ops compute.
 *
 * A HEAD_CARRY of a spilled carry waits for a copy from host memory, and a TAIL
 * for a copy to it. With a window, which is memory of the arena for one carry,
 * the copy runs while other ops compute:
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

/* Places windows in unused memory of a planned program, for the largest carries
 * first, and adds the ops. The arena grows to at most `most` bytes. A copy for
 * whose window there is no room stays as it is. False: out of memory. */
bool vae_program_prefetch(VaeProgram *program, size_t most);

#endif
