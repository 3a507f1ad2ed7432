"""Captures graphs of PyTorch in one thread while another opens streams and
decodes. PyTorch captures in global mode, in which a call that takes memory or
waits, in any thread, breaks the capture.

    beside_torch.py PACKAGE WEIGHTS

PACKAGE is the folder python of the build. Prints a line for each check. Exit
status: 0 all hold, 1 not, 77 no PyTorch with a GPU, or no package.
"""
import array
import os
import random
import sys
import threading

OPENINGS, STEPS, SIDE = 4, 6, 64


def latents(channels):
    dice = random.Random(1)
    n = channels * (SIDE // 8) ** 2
    return [memoryview(array.array('f', (dice.uniform(-1, 1) for _ in range(n))))
            .cast('B').cast('f', (channels, SIDE // 8, SIDE // 8))
            for _ in range(STEPS)]


def decode(vae, clip):
    """All frames of a new stream."""
    with vae.decoder(SIDE, SIDE, backend='cuda', precision='fp16', slice_size=1,
                     deterministic=True) as decoder:
        return b''.join(decoder(one).tobytes() for one in clip)


def main():
    sys.path.insert(0, sys.argv[1])
    try:
        import gst_vae
        import torch
    except ImportError:
        torch = None
    if not torch or not torch.cuda.is_available():
        print('skipped: no PyTorch with a GPU')
        return 77
    vae = gst_vae.open(sys.argv[2])
    clip = latents(vae.info.latent_channels)
    want = decode(vae, clip)
    got, failed = [], []

    def work():
        try:
            for _ in range(OPENINGS):
                got.append(decode(vae, clip))
        except gst_vae.Error as error:
            failed.append(str(error))
    x = torch.ones(1 << 20, device='cuda')
    x.mul_(1)  # loads the kernel
    torch.cuda.synchronize()
    worker = threading.Thread(target=work)
    worker.start()
    captures = refused = 0
    while worker.is_alive():
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                for _ in range(200):
                    x.mul_(1)
        except RuntimeError as error:
            # It waits for the whole device before it captures, which CUDA
            # refuses while a stream records its programs.
            if 'capturing' not in str(error):
                raise
            refused += 1
            continue
        graph.replay()
        captures += 1
    worker.join()
    torch.cuda.synchronize()
    same = not failed and len(got) == OPENINGS and all(g == want for g in got)
    print('%s %d streams beside %d captures%s' % (
        'ok  ' if same else 'FAIL', len(got), captures,
        ': ' + failed[0] if failed else '' if same else ': other bytes'))
    records = os.environ.get('VAE_CUDA_GRAPHS') != '0'
    print('%s %d waits for the device were refused' % (
        'ok  ' if records or not refused else 'FAIL', refused))
    same = same and (records or not refused)
    right = bool((x == 1).all())
    print('%s the graphs compute what they should' % (
        'ok  ' if right else 'FAIL'))
    return 0 if same and right and captures else 1


if __name__ == '__main__':
    sys.exit(main())
