/*
 * graph_emu.c: graph.h over the emulation, whose kernels have no names.
 */
#include "graph.h"

#include <stdio.h>

#include "emu_rt.h"

void
graph_tell(VaeRtGraph graph)
{
    if (!graph) {
        printf("null");
        return;
    }
    const EmuWork work = emu_graph_work(graph);
    printf("{\"kernels\": %d, \"copies\": %d, \"fills\": %d, \"others\": 0, "
           "\"names\": {\"?\": %d}}",
           work.kernels, work.copies, work.fills, work.kernels);
}
