/*
 * delay.c: decoders whose frames come later than their latents, and the end of
 * their sequences.
 */
#include "stream.h"

int
vae_stream_drain_steps(const VaeStream *stream)
{
    return 0;
}

void
vae_stream_drain_count(const VaeStream *stream, int steps, int *n_out)
{
    *n_out = 0;
}

VaeStatus
vae_stream_drain(VaeStream *stream, int steps, const VaePicture *frames,
                 int n_frames, VaeError *error)
{
    const VaeStatus status = vae_stream_check_state(stream, VAE_DECODE, error);
    const int left = vae_stream_drain_steps(stream);
    if (status != VAE_OK)
        return status;
    if (steps < 0 || steps > left || n_frames)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%d steps that give %d frames; the end of the sequence "
                        "has %d steps",
                        steps, n_frames, left);
    return VAE_OK;
}
