/*
 * ssim.h: structural similarity of two videos.
 */
#ifndef VAE_SSIM_H
#define VAE_SSIM_H

#include "tool.h"

/*
 * Mean over frames, colours and windows of two [T,H,W,3] tensors of equal
 * shape: Gaussian windows of 11x11, sigma 1.5, that lie inside the picture
 * (where it is smaller: one window of its size); K1 0.01, K2 0.03. range: of
 * U8, or NULL, see video_read(). NaN when out of memory.
 */
double ssim_video(const VaeTensorInfo *a, const VaeTensorInfo *b,
                  const VideoRange *range, double peak);

#endif
