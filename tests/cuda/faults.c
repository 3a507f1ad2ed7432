/*
 * faults.c: checks that the tests on the emulated device notice a missing wait,
 * a missing copy, or a carry in a wrong place.
 *
 * faults MODEL STRIDE. The test breaks each operation of these kinds in turn: a
 * wait of a stream or of the host, a copy to or from the device, and a copy
 * within the device (with a stride, some of these). The result must then
 * differ.
 */

#include "clips.h"
#include "emu_rt.h"

typedef struct Kind {
    EmuFault fault;
    const char *label;
} Kind;

static const Kind kinds[] = {
    {EMU_FAULT_STREAM_WAIT, "waits of streams"},
    {EMU_FAULT_HOST_WAIT, "waits of the host"},
    {EMU_FAULT_UPLOAD, "copies to the device"},
    {EMU_FAULT_DOWNLOAD, "copies from the device"},
    {EMU_FAULT_NO_COPY, "copies within the device are left out"},
    {EMU_FAULT_FROM, "copies within the device read from a wrong place"},
    {EMU_FAULT_TO, "copies within the device write to a wrong place"},
};

/* Runs the clip with the n-th fault. Returns true if the result is right
 * although the fault had an effect. */
static bool
is_same(const Bed *bed, VaeDirection direction, Clips *c, EmuFault fault, int n)
{
    SCOPED_STREAM VaeStream *stream = open_stream(bed->model, direction);
    emu_set_fault(fault, n);
    run_clips(bed, stream, direction, c);
    const bool same = same_clips(bed, c, direction);
    const int count = emu_fault_count(fault), done = emu_fault_done();
    emu_set_fault(EMU_FAULT_NONE, 0);
    return same && n < count && done > 0;
}

static int
count_faults(const Bed *bed, VaeDirection direction, Clips *c, EmuFault fault)
{
    SCOPED_STREAM VaeStream *stream = open_stream(bed->model, direction);
    emu_set_fault(fault, -1);
    run_clips(bed, stream, direction, c);
    const int n = emu_fault_count(fault);
    emu_set_fault(EMU_FAULT_NONE, 0);
    return n;
}

static void
one_direction(const Bed *bed, VaeDirection direction, int stride)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    const char *name = name_of(direction);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const EmuFault fault = kinds[k].fault;
        const int n = count_faults(bed, direction, &c, fault);
        const int by =
            fault < EMU_FAULT_NO_COPY || fault > EMU_FAULT_TO ? 1 : stride;
        int missed = 0, first = -1;
        for (int i = (int) k % by; i < n; i += by)
            if (is_same(bed, direction, &c, fault, i)) {
                missed++;
                first = first < 0 ? i : first;
            }
        expect(n > 0 && missed == 0, "%s, %s: %d, %d of them not noticed%s%.0d",
               name, kinds[k].label, n, missed,
               first < 0 ? "" : ", first: ", first < 0 ? 0 : first);
    }
}

int
main(int argc, char **argv)
{
    Bed bed;
    /* without graphs each run makes its copies itself */
    setenv("VAE_CUDA_GRAPHS", "0", 1);
    const int stride = bed_open_device(&bed, argc, argv);
    one_direction(&bed, VAE_DECODE, stride);
    one_direction(&bed, VAE_ENCODE, stride);
    return bed_close(&bed);
}
