/*
 * ssim.h: structural similarity of two videos.
 */
#ifndef VAE_SSIM_H
#define VAE_SSIM_H

#include "tool.h"

/*
 * Mean SSIM over frames, colours and windows of two [T,H,W,3] tensors of equal
 * shape. The windows are Gaussian, 11x11 with sigma 1.5, inside the picture; a
 * smaller picture has one window of its size. K1 0.01, K2 0.03. range: see
 * video_read(). NaN when out of memory.
 */
double ssim_video(const VaeTensorInfo *a, const VaeTensorInfo *b,
                  const VideoRange *range, double peak);

#endif
