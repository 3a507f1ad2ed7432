#!/bin/sh
# Decodes one stream of latents twice: with a tiny model for a preview, and with
# the full model for the record. Prints how close the two are.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"
# shellcheck disable=SC2034,SC2154 # read by env.sh, set by it
options="model $reading"

usage() {
    cat <<'EOF'
usage: preview-and-record.sh [OPTION...] [LATENTS] OUT

LATENTS  a file of latents: .safetensors, .latent of ComfyUI, .npy, or a tensor
         saved by PyTorch (.pt); default: the bundled demo latents
OUT      the record: .webm (VP8), .mp4 (H.264) or .y4m (not compressed). The
         same name with .png gets a sheet of frames, with the preview on the
         left and the record on the right

  --model WEIGHTS      the VAE for the record; default: the installed model of
                       the latent space
  --preview WEIGHTS    the VAE for the preview, of the same latent space; default:
                       the demo model's tiny decoder, for its latents only
EOF
    reading_usage
    cat <<'EOF'

Without a display the script only saves the preview in the sheet.
EOF
}

model=
space=
preview=
while [ $# -gt 0 ]; do
    case $1 in
    --preview)
        has_value "$@"
        need_model "$2"
        preview=$2
        ;;
    *) take_option "$@" || break ;;
    esac
    shift 2
done
no_options "$@"
take_clip "$@"

case $out in
*.webm) set -- vp8enc deadline=1 cpu-used=4 target-bitrate=4000000 ! webmmux ;;
*.mp4) set -- x264enc tune=zerolatency ! h264parse ! mp4mux ;;
*.y4m) set -- y4menc ;;
*) die "$out: the name must end in .webm, .mp4 or .y4m" ;;
esac
need_elements latentdemux vaedecode videoflip matroskamux pngenc "$1"
case $out in
*.y4m) set -- videorate ! "$@" ;; # a .y4m has no times
esac
need_vaetool

# The tiny decoder understands the demo model's latents only.
if [ -z "$preview" ]; then
    preview=$pipelines/demo/demo-tiny.safetensors
    theirs=${space:-$(space_of "$latents")}
    [ "$theirs" != none ] || [ -z "$model" ] || theirs=$(space_of "$model")
    case $theirs in
    gst-vae-demo | none) ;;
    *) die "$latents: of the latent space $theirs; --preview WEIGHTS must name" \
        "a tiny model of it" ;;
    esac
fi
need_model "$preview"
if same_model "$preview" "${model:-$pipelines/demo/demo.safetensors}"; then
    die "$preview: the preview and the record would have the same model;" \
        '--preview WEIGHTS must name a tiny model of the latent space'
fi

show_frames true 'the preview is only saved in the sheet'
write_to "${out%.*}.png" "$latents"
write_to "$out" "$latents"
tmp=$(new_folder)

# The queues in front of the decoders hold all waiting latents, so that neither
# decoder waits for the other. A latent is far smaller than its frames.
wait='max-size-buffers=0 max-size-bytes=0 max-size-time=0'
# shellcheck disable=SC2086 # elements and their properties
play filesrc "$(location "$latents")" ! \
    latentdemux ${space:+"latent-space=$(quoted "$space")"} $demux ! \
    tee name=latents \
    latents. ! queue $wait ! vaedecode qos=false $settings "model=$(quoted "$preview")" ! \
    video/x-raw,format=I420 ! $upright ! tee name=preview \
    preview. ! queue ! $sink \
    preview. ! queue ! matroskamux ! filesink "$(location "$tmp/preview.mkv")" \
    latents. ! queue $wait ! \
    vaedecode $settings $variant ${model:+"model=$(quoted "$model")"} ! \
    video/x-raw,format=I420 ! $upright ! tee name=record \
    record. ! queue ! videoconvert ! "$@" ! filesink "$(location "$part")" \
    record. ! queue ! matroskamux ! filesink "$(location "$tmp/record.mkv")"

size_of "$tmp/record.mkv" "$tmp"
cell=$((160 * height / width * 2)) # of the sheet: 320 wide, this high
picture=
for video in preview record; do
    small=$picture
    size_of "$tmp/$video.mkv" "$tmp"
    picture=${width}x$height
    rgb_of "$tmp/$video.mkv" "$width" "$height" "$tmp/$video.safetensors"
    pictures_of "$tmp/$video.mkv" 320 $cell "$tmp/$video-"
done

# Up to four frames, from the first to the last.
frames=0
while [ -f "$tmp/$(printf 'record-%06d.png' $frames)" ]; do
    frames=$((frames + 1))
done
rows=$((frames < 4 ? frames : 4))
row=0
set --
while [ $row -lt $rows ]; do
    number=$((row * (frames - 1) / (rows > 1 ? rows - 1 : 1)))
    for video in preview record; do
        set -- "$@" "$tmp/$video-$(printf '%06d' $number).png"
    done
    row=$((row + 1))
done
sheet "${out%.*}.png" 320 $cell 2 "$@"

if [ "$small" = "$picture" ]; then
    echo "$frames frames of $picture, the preview beside the record:"
    vaetool compare "$tmp/record.safetensors" "$tmp/preview.safetensors"
else
    echo "$frames frames of $picture, the preview of $small: no numbers compare" \
        'pictures of two sizes'
fi
case $out in
*.y4m) check_y4m "$part" ;;
esac
wrote "$out"
wrote "${out%.*}.png"
