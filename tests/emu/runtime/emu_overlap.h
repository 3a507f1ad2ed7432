/*
 * emu_overlap.h: checks that the output of a kernel does not overlap its input.
 * Ends the process if it does.
 */
#ifndef EMU_OVERLAP_H
#define EMU_OVERLAP_H

#include "kernels.h"

void emu_overlap_conv_matrix(const VaeConvMatrixArgs *a);
void emu_overlap_norm(const VaeNormArgs *a);
void emu_overlap_attention(const VaeAttentionArgs *a);
void emu_overlap_window(const VaeWindowArgs *a);
void emu_overlap_glu(const VaeGluArgs *a);
void emu_overlap_noise(const VaeNoiseArgs *a);
void emu_overlap_rearrange(const VaeRearrangeArgs *a);
void emu_overlap_cast(const VaeCastArgs *a);
void emu_overlap_shortcut(const VaeShortcutArgs *a);
void emu_overlap_clamp(const VaeClampArgs *a);
void emu_overlap_depthwise(const VaeDepthwiseArgs *a);
void emu_overlap_latent_in(const VaeLatentInArgs *a);
void emu_overlap_latent_out(const VaeLatentOutArgs *a);
void emu_overlap_nonfinite(const VaeNonfiniteArgs *a);
void emu_overlap_picture_out(const VaePictureOutArgs *a);
void emu_overlap_picture_in(const VaePictureInArgs *a);

#endif
