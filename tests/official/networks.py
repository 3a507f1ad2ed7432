#!/usr/bin/env python3
"""Official networks, as official.py runs them: each run in a process of its own, so that
its peak memory is its own.

    networks.py JOB

JOB is a file that Official of official.py writes. The result and its printed JSON are for
that class.
"""
import glob
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import time
import types

from tensors import read, write

SEEDVR2_SCALE = 0.9152


def commit_of(path):
    try:
        done = subprocess.run(['git', '-C', os.path.dirname(path), 'rev-parse', '--short', 'HEAD'],
                              capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 'unknown commit'  # no git, or no checkout
    return 'commit ' + done.stdout.strip()


def class_of(config):
    """The class of diffusers that a config.json names; '' if it is of another module."""
    with open(config) as f:
        name = json.load(f).get('_class_name', '')
    return name if name.startswith('Autoencoder') else ''


def name_of(code):
    """What a report says about the code that ran."""
    if code.endswith('.json'):
        return '%s of diffusers %s' % (class_of(code), importlib.metadata.version('diffusers'))
    return '%s, %s' % (os.path.basename(code), commit_of(code))


def load_module(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_weights(path):
    import torch
    if path.endswith('.safetensors'):
        return {k: torch.from_numpy(v.copy()) for k, v in read(path).items()}
    state = torch.load(path, map_location='cpu', weights_only=True)
    while not all(hasattr(v, 'shape') for v in state.values()):
        state = next(v for v in state.values() if isinstance(v, dict))
    return {k: v.float() for k, v in state.items()}


# Each make_ function gives a network and functions from latents [1, C, T, h, w] as the diffusion
# model sees them to frames [1, 3, T, H, W] in the network's range, and back.
def make_wan(code, path, info):
    import torch
    if not hasattr(torch.nn.functional, 'scaled_dot_product_attention'):  # before PyTorch 2
        torch.nn.functional.scaled_dot_product_attention = lambda q, k, v: torch.softmax(
            q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
    state = load_weights(path)
    extra = {}
    if info['arch'] == 'wan2.2':
        extra['dec_dim'] = state['decoder.conv1.weight'].shape[0] // 4
    net = load_module(code, 'wan_vae').WanVAE_(
        dim=state['encoder.conv1.weight'].shape[0], z_dim=info['latent_channels'],
        dim_mult=[1, 2, 4, 4], num_res_blocks=2, attn_scales=[],
        temperal_downsample=[False, True, True], **extra)
    net.load_state_dict(state)

    def scale(like):
        return [torch.tensor(info['mean']).to(like), (1 / torch.tensor(info['std'])).to(like)]
    return net, lambda z: net.decode(z, scale(z)), lambda x: net.encode(x, scale(x))


def make_seedvr2(code, path, info):
    sys.path.insert(0, os.path.join(os.path.dirname(code), '..', '..', '..'))
    import models.video_vae_v3.modules.attn_video_vae as m
    state = load_weights(path)
    widths = [state['encoder.down_blocks.%d.resnets.0.conv1.weight' % i].shape[0]
              for i in range(4)]
    net = m.VideoAutoencoderKL(
        act_fn='silu', block_out_channels=widths, in_channels=3, out_channels=3,
        latent_channels=info['latent_channels'], layers_per_block=2,
        norm_num_groups=info['groups'], slicing_sample_min_size=4, temporal_scale_num=2,
        inflation_mode='pad', use_quant_conv=False, use_post_quant_conv=False,
        down_block_types=['DownEncoderBlock3D'] * 4, up_block_types=['UpDecoderBlock3D'] * 4)
    net.load_state_dict(state, strict=True)
    net.enable_slicing()
    return (net, lambda z: net.decode(z / SEEDVR2_SCALE).sample,
            lambda x: net.encode(x).latent_dist.mode() * SEEDVR2_SCALE)


FLAT = 'AutoencoderKL', 'AutoencoderKLFlux2', 'AutoencoderTiny'  # [B, C, h, w]


def make_diffusers(code, path, info):
    """code: the configuration beside the weights. A network without time gets the frames of a
    clip as a batch."""
    import diffusers
    import torch
    state = load_weights(path)
    name = class_of(code)
    with open(code) as f:
        net = getattr(diffusers, name).from_config(json.load(f))
    if not state.keys() - net.state_dict().keys():
        net.load_state_dict(state)
    else:  # other names, or a checkpoint of more than the network
        try:
            net = getattr(diffusers, name).from_single_file(
                state, config=os.path.dirname(code), local_files_only=True)
        except ValueError:
            sys.exit('%s of diffusers reads no file with %s names' % (name, info['names']))
    mean, std = (torch.tensor(info[k]).reshape(-1, 1, 1, 1) for k in ('mean', 'std'))
    if name == 'AutoencoderTiny':  # its latents are normalized
        mean, std = torch.zeros(1), torch.ones(1)
    low, high = info['pixel_range']  # the module's is -1 to 1

    def clip_of(function, v):
        if info['temporal'] > 1:
            return function(v)
        batch = v[0].transpose(0, 1)
        made = function(batch if name in FLAT else batch.unsqueeze(2))
        return (made if name in FLAT else made.squeeze(2)).transpose(0, 1)[None]

    def decode(z):
        folded = name == 'AutoencoderKLFlux2'
        x = net.decode(torch.pixel_shuffle(z, 2) if folded else z).sample
        return (x + 1) / 2 * (high - low) + low

    def encode(x):
        x = (x - low) / (high - low) * 2 - 1
        if net.config.get('in_channels') == 4:
            x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
        made = net.encode(x)
        made = made.latents if name == 'AutoencoderTiny' else made.latent_dist.mean
        return torch.pixel_unshuffle(made, 2) if name == 'AutoencoderKLFlux2' else made

    return (net, lambda z: clip_of(decode, z * std.to(z) + mean.to(z)),
            lambda x: (clip_of(encode, x) - mean.to(x)) / std.to(x))


def make_taehv(code, path, info):
    if not importlib.util.find_spec('tqdm'):
        fake = types.SimpleNamespace(tqdm=lambda it=None, **_: it)
        sys.modules.update({'tqdm': types.ModuleType('tqdm'), 'tqdm.auto': fake})
    from unittest import mock
    import torch
    tae = load_module(code, 'taehv').TAEHV
    state = load_weights(path)
    # The code chooses the network by the name of a file, which it then loads.
    with mock.patch.object(torch, 'load', lambda *_, **__: state):
        net = tae(info['arch'] + '.pth')

    def of(function):
        return lambda v: function(v.transpose(1, 2), parallel=False,
                                  show_progress_bar=False).transpose(1, 2)
    return net, of(net.decode_video), of(net.encode_video)


def make_taesd(code, path, info):
    """An official file has one half, with bare names. The frames of a clip are a batch."""
    import torch
    tae = load_module(code, 'taesd').TAESD
    # The code chooses the network by the name of a file.
    net = tae(None, None, *tae.guess_latent_channels_and_arch(tae, info['arch'] + '_encoder.pth'))
    state = load_weights(path)
    whole = any(name.startswith(('encoder.', 'decoder.')) for name in state)
    (net if whole else net.decoder if info['decoder'] else net.encoder).load_state_dict(state)
    fold = 2 if info['arch'] == 'taef2' else 1

    def of(function):
        return lambda v: function(v[0].transpose(0, 1)).transpose(0, 1)[None]
    return (net, of(lambda z: net.decoder(torch.pixel_shuffle(z, fold))),
            of(lambda x: torch.pixel_unshuffle(net.encoder(x), fold)))


def make_ltx2(code, path, info):
    """The code reads its own tensors of a single file, and the configuration in its metadata."""
    sys.path.insert(0, os.path.join(os.path.dirname(code), '..', '..', '..'))
    import torch
    import ltx_core.model.video_vae as m
    from ltx_core.loader.sft_loader import SafetensorsModelStateDictLoader
    loader = SafetensorsModelStateDictLoader()
    halves = []
    for side, configurator, names in (
            ('encoder', m.VideoEncoderConfigurator, m.VAE_ENCODER_COMFY_KEYS_FILTER),
            ('decoder', m.VideoDecoderConfigurator, m.VAE_DECODER_COMFY_KEYS_FILTER)):
        halves.append(torch.nn.Identity())
        if info[side]:
            halves[-1] = configurator.from_metadata(loader.metadata(path))
            halves[-1].load_state_dict(loader.load(path, names).sd)
    encoder, decoder = halves
    decoder.decode_noise_scale = 0  # gst-vae adds no noise
    return torch.nn.ModuleList(halves), decoder, encoder


def make_magi(code, path, info):
    """The JSON file beside the weights has the configuration."""
    from unittest import mock
    import torch
    fake = types.SimpleNamespace(magi_compile=lambda **_: lambda f: f)
    sys.modules.update({'magi_compiler': types.ModuleType('magi_compiler'),
                        'magi_compiler.api': fake})
    module = load_module(code, 'turbo_vaed')
    configs = []
    for name in glob.glob(os.path.join(glob.escape(os.path.dirname(path)), '*.json')):
        with open(name) as f:
            configs += [c for c in [json.load(f)] if 'decoder_block_out_channels' in c]
    if len(configs) != 1:
        sys.exit('%d JSON files with decoder_block_out_channels are beside the weights, '
                 'expected one' % len(configs))
    tensor = torch.tensor
    # The code puts its statistics on a GPU.
    with mock.patch.object(torch, 'tensor', lambda v, device, **words: tensor(v, **words)):
        net = module.TurboVAED.from_config(configs[0])
    state = {k.removeprefix('module.').removeprefix('decoder.'): v
             for k, v in load_weights(path).items()}
    net.decoder.load_state_dict({k: state[k] for k in net.decoder.state_dict()})

    def decode(z):
        net.scale = [v.to(z.device) for v in net.scale]
        return net.decode(z)
    return net, decode, None


# Family of networks: the repository, the file in it that defines them, and their function.
CODE = {
    'wan2.1': ('Wan-Video/Wan2.1', 'wan/modules/vae.py', make_wan),
    'wan2.2': ('Wan-Video/Wan2.2', 'wan/modules/vae2_2.py', make_wan),
    'seedvr2': ('ByteDance-Seed/SeedVR', 'models/video_vae_v3/modules/attn_video_vae.py',
                make_seedvr2),
    **dict.fromkeys(('ltx2.0', 'ltx2.3'), (
        'Lightricks/LTX-2', 'packages/ltx-core/src/ltx_core/model/video_vae/video_vae.py',
        make_ltx2)),
    'magi2_turbo': ('SandAI-org/MAGI-2-preview', 'inference/model/turbo_vaed.py', make_magi),
    'taehv': ('madebyollin/taehv', 'taehv.py', make_taehv),
    'taesd': ('madebyollin/taesd', 'taesd.py', make_taesd),
}
# Network: its class in diffusers.
CLASSES = {
    'wan2.1': 'AutoencoderKLWan', 'wan2.2': 'AutoencoderKLWan',
    'qwenimage2.1': 'AutoencoderKLQwenImage21', 'hunyuan1.0': 'AutoencoderKLHunyuanVideo',
    'hunyuan1.5': 'AutoencoderKLHunyuanVideo15', 'ltx2.0': 'AutoencoderKLLTX2Video',
    'ltx2.3': 'AutoencoderKLLTX2Video', 'flux2': 'AutoencoderKLFlux2',
    **dict.fromkeys(('sd', 'sdxl', 'sd3', 'flux1'), 'AutoencoderKL'),
    **dict.fromkeys(('taesd', 'taesdxl', 'taesd3', 'taef1'), 'AutoencoderTiny'),
}


def family(info):
    """The tiny networks of video, those of images, or the network itself."""
    if not info['arch'].startswith('tae'):
        return info['arch']
    return 'taehv' if info['temporal'] > 1 else 'taesd'


def find_code(root, info):
    """The file that defines the network, of a checkout in root or root itself; None."""
    path = CODE[family(info)][1]
    return next((found for place in ('', '*') for found in
                 sorted(glob.glob(os.path.join(root, place, path))) if root), None)


def find_config(path):
    """The config.json of a class of diffusers beside a file of weights; None."""
    config = os.path.join(os.path.dirname(path), 'config.json')
    return config if os.path.exists(config) and class_of(config) else None


def choose_code(path, root, info):
    """(what computes the network of the file, None) or (None, what the user has to add)."""
    ways, needs = [], []  # what is there, its name, the packages it takes
    if info['arch'] in CLASSES:
        ways.append((find_config(path), 'the config.json of %s of diffusers beside the file' %
                     CLASSES[info['arch']], ('torch', 'diffusers')))
    if family(info) in CODE and info['names'] == 'official':
        ways.append((find_code(root, info), 'a checkout of %s in OFFICIAL' %
                     CODE[family(info)][0], ('torch',)))
    for code, name, packages in ways:
        lacking = [p for p in packages if not importlib.util.find_spec(p)]
        if code and not lacking:
            return code, None
        needs.append(' and '.join(([] if code else [name]) + [
            'the package ' + p for p in lacking]))
    return None, ('needs ' + ', or '.join(needs) if ways else
                  'networks.py does not run the code of %s, %s names' %
                  (info['arch'], info['names']))


def network(path):
    """One official run; prints JSON. Input and output are vaetool's."""
    with open(path) as f:
        job = json.load(f)
    import torch
    info, precision, device = job['info'], job['precision'], job['device']
    make = (make_diffusers if job['code'].endswith('.json') else
            CODE[family(info)][2])
    dtype = {'fp16': torch.float16, 'bf16': torch.bfloat16}.get(precision, torch.float32)
    torch.set_num_threads(job['threads'])
    torch.backends.cudnn.allow_tf32 = precision == 'tf32'
    torch.backends.cuda.matmul.allow_tf32 = precision == 'tf32'
    net, decode, encode = make(job['code'], job['weights'], info)
    net.eval().requires_grad_(False).to(device, dtype)
    given = read(job['input'])
    if job['direction'] == 'decode':
        x, go = torch.from_numpy(given['latent'].copy())[None], decode
    else:
        low, high = info['pixel_range']
        x = torch.from_numpy(given['video_u8'].copy()).permute(3, 0, 1, 2)[None]
        x, go = x.float() / 255 * (high - low) + low, encode
    x, times = x.to(device, dtype), []
    with torch.no_grad():
        while not times or (len(times) < 2 and times[0] < 60):  # the first warms up
            start = time.monotonic()
            y = go(x).float().cpu()
            times.append(time.monotonic() - start)
    y = y[0].numpy()
    if job['direction'] == 'decode':
        if job['code'].endswith('.json'):  # some classes clamp
            y = y.clip(*info['pixel_range'])
        write(job['output'], {'frames': y.transpose(1, 2, 3, 0)})
    else:
        write(job['output'], {'latent': y})
    print(json.dumps({'seconds': times[-1], 'torch': torch.__version__, 'peak_memory':
                      torch.cuda.max_memory_allocated() if device == 'cuda' else None}))


if __name__ == '__main__':
    network(sys.argv[1])
