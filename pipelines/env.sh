# shellcheck shell=sh
# Functions that the scripts of this folder share. A script sets `pipelines` to
# this folder and then runs ". env.sh".
#
# The plugin is that of GST_PLUGIN_PATH if it is set, else that of a build
# folder of this checkout (build, then build-demo), else the installed one. The
# same holds for vaetool.

# shellcheck disable=SC2154 # the script sets it
top=$(cd "$pipelines/.." && pwd)
# shellcheck disable=SC2034 # the script uses it
demo_latents=$pipelines/demo/latents.safetensors
# Caps behind an encoder that select the demo model, also if others are
# installed.
# shellcheck disable=SC2034
demo_caps=video/x-vae-latent,latent-space=gst-vae-demo

# Makes --option=value of the script's arguments two arguments.
for argument; do
    shift
    case $argument in
    --*=*) set -- "$@" "${argument%%=*}" "${argument#*=}" ;;
    *) set -- "$@" "$argument" ;;
    esac
done

# Files and a pipeline that must not remain when the script ends.
tmp=
pipe=
part=
launch=
clean_up() {
    [ -z "$launch" ] || {
        kill "$launch" 2>/dev/null || true
        wait "$launch" 2>/dev/null || true # it may create part meanwhile
    }
    rm -rf "$tmp" "$pipe" "$part"
}
# new_folder [NAME]: makes a temporary folder and prints its name, also if Ctrl-C
# comes meanwhile, so that clean_up knows it.
# shellcheck disable=SC2120 # demo.sh gives a name
new_folder() (
    trap '' INT TERM HUP
    mktemp -d "$@"
)
# Ends the script after Ctrl-C. OUT is as it was, see write_to().
interrupt() {
    [ -z "$part" ] ||
        echo "${0##*/}: interrupted: ${part%.part$$} is not written" >&2
    exit 130
}
trap clean_up EXIT
trap interrupt INT
trap 'exit 143' TERM
# PIPE: the reader of the messages has gone. dash would end without clean_up.
trap 'exit 1' HUP PIPE

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# has_value OPTION [VALUE...]: ends the script if the option has no value, or an
# empty one, which an element would ignore.
has_value() {
    [ "${2:-}" ] || die "$1 needs a value; see --help"
}

# need_word A B C OPTION [VALUE...]: ends the script if the value is not one of the
# three words.
need_word() {
    has_value "$4" "${5:-}"
    case $5 in
    "$1" | "$2" | "$3") ;;
    *) die "$4 $5: expected $1, $2 or $3" ;;
    esac
}

# fits_int NUMBER: GStreamer would take only the lower 32 bits of a larger one.
fits_int() {
    [ ${#1} -le 10 ] && [ "$1" -le 2147483647 ]
}

# need_rate RATE: a whole number or a fraction, above 0.
need_rate() {
    case /$1/ in
    *[!0-9/]* | *//* | /*/*/*/ | */0*) ;;
    *)
        if fits_int "${1%/*}" && fits_int "${1#*/}"; then return 0; fi
        die "--framerate $1: expected numbers up to 2147483647"
        ;;
    esac
    die "--framerate $1: expected a whole number or a fraction, such as 24 or" \
        30000/1001
}

# need_index NUMBER: a whole number from 0.
need_index() {
    case $1 in
    *[!0-9]*) ;;
    *) if fits_int "$1"; then return 0; fi ;;
    esac
    die "--batch-index $1: expected a whole number, 0 to 2147483647"
}

# The options of scripts that read latents; each is also a property. A script sets
# `options` to those of its options that are properties.
# shellcheck disable=SC2034 # the script uses it
reading="latent-space variant normalization tensor layout batch-index framerate"
options=
demux=    # properties for latentdemux
settings= # properties for $network with any model
variant=  # a property for elements with the model
# The element whose properties are options, too; or none.
network=vaedecode

# reading_usage: prints the help of these options.
reading_usage() {
    cat <<'END'
  --latent-space NAME  latent space of a file that does not state it, such as
                       wan2.1
  --normalization N    normalized, raw, comfyui (the one of both that ComfyUI
                       saves), or auto (default): as the file states
  --tensor NAME        name of the tensor, if the file has several
  --layout L           order of the dimensions: cthw, tchw, bcthw, btchw, or auto
                       (default): as the file states, else by the shape
  --batch-index N      clip of a batch, from 0
  --framerate RATE     frame rate of the video, such as 24 or 30000/1001
  --variant NAME       network of the WEIGHTS, if their shapes fit several
  --tile-plan P        tiles of latents of hunyuan1.0: diffusers (default) or
                       official; the pictures differ
  --seed N             seed of the noise of ltx2.5_diff; default: 0
END
    settings_usage
}

# settings_usage: prints the help of the options that are properties of $network.
settings_usage() {
    cat <<END
  --PROPERTY VALUE     any other property of $network, such as --precision fp32;
                       gst-inspect-1.0 $network lists them
END
}

# properties: prints the properties of $network that a script may set.
properties() {
    [ "$network" ] || return 0
    use_plugin
    gst-inspect-1.0 "$network" 2>/dev/null | awk '
        /^  [a-z]/ { name = $1 }
        /flags:.* writable, changeable/ { print name }'
}

# need_range OPTION NUMBER: ends the script if the property is a whole number of another
# range. GStreamer only warns, and keeps the default.
need_range() {
    use_plugin
    bounds=$(gst-inspect-1.0 "$network" 2>/dev/null | awk -v property="${1#--}" '
        /^  [a-z]/ { found = $1 == property }
        found && /Integer(64)?\. Range: / {
            sub(/.*Range: /, "")
            print $1, $3
        }')
    [ "$bounds" ] || return 0
    echo "$2" | awk -v least="${bounds% *}" -v most="${bounds#* }" '
        # compares whole numbers as texts, as awk has only 53 bits
        function above(a, b) {
            if ((a ~ /^-/) != (b ~ /^-/)) return b ~ /^-/
            if (a ~ /^-/) return above(substr(b, 2), substr(a, 2))
            if (length(a) != length(b)) return length(a) > length(b)
            return "x" a > "x" b
        }
        /^-?(0|[1-9][0-9]*)$/ && !above($0, most) && !above(least, $0) { good = 1 }
        END { exit !good }' ||
        die "$1 $2: expected a whole number, ${bounds% *} to ${bounds#* }"
}

# take_option OPTION [VALUE...]: handles the options that all scripts share:
# --help, --model and --latent-space, whose values go to model and space, and
# --variant; also those of `reading` that are in `options`, and properties. False
# if the first argument is no option.
# shellcheck disable=SC2034 # the caller uses it
take_option() {
    case $1 in
    --help | -h)
        usage
        exit 0
        ;;
    --model)
        has_value "$@"
        need_model "$2"
        model=$2
        ;;
    --latent-space)
        has_value "$@"
        space=$2
        ;;
    --variant)
        has_value "$@"
        variant="variant=$(quoted "$2")"
        ;;
    --normalization | --tensor | --layout | --batch-index | --framerate)
        case " $options " in
        *" ${1#--} "*) ;;
        *) die "unknown option $1; see --help" ;;
        esac
        case $1,$# in
        --framerate,1) has_value "$@" ;;
        --framerate,*) need_rate "$2" ;;
        *) has_value "$@" ;;
        esac
        case $1,$2 in
        --batch-index,*) need_index "$2" ;;
        esac
        case $1 in
        --normalization) settings="$settings ${1#--}=$(quoted "$2")" ;;
        *) demux="$demux ${1#--}=$(quoted "$2")" ;;
        esac
        ;;
    -*)
        properties | grep -q -x -e "${1#--}" ||
            die "unknown option $1; see --help"
        has_value "$@"
        need_range "$1" "$2"
        settings="$settings ${1#--}=$(quoted "$2")"
        ;;
    *) return 1 ;;
    esac
}

# one_model: ends the script if the options name two models.
one_model() {
    [ -z "$model" ] || [ -z "$space" ] ||
        die '--model and --latent-space exclude each other; see --help'
}

# same_model A B: true if both name one file, folder or pair of files, or copies
# of one file.
same_model() {
    [ "$1" = "$2" ] || cmp -s "$1" "$2" ||
        { [ -d "$1" ] && [ "$(realpath "$1")" = "$(realpath "$2")" ]; }
}

# no_options ARGUMENT...: ends the script if an option follows a name of a file.
no_options() {
    for argument; do
        case $argument in
        -*) die "$argument: options come before the names of files; see --help" ;;
        esac
    done
}

# take_size OPTION [WxH]: sets width and height.
take_size() {
    has_value "$@"
    width=${2%x*}
    height=${2#*x}
    case $2,$width,$height in
    *x*,[0-9]*,[0-9]*) ;;
    *) die "$1 $2: expected WxH, such as 832x480" ;;
    esac
    case $width,$height in
    *[!0-9,]*) die "$1 $2: expected WxH, such as 832x480" ;;
    0*,* | *,0* | ??????*,* | *,??????*) ;;
    *) [ "$width" -gt 65535 ] || [ "$height" -gt 65535 ] || return 0 ;;
    esac
    die "$1 $2: expected WxH, 1 to 65535 each"
}

# use_build FOLDER: selects the plugin and vaetool of that build folder.
use_build() {
    GST_PLUGIN_PATH_1_0=$1/gst${GST_PLUGIN_PATH_1_0:+:$GST_PLUGIN_PATH_1_0}
    PATH=$1/engine:$PATH
    export GST_PLUGIN_PATH_1_0 PATH
}

# use_plugin: sets the paths above.
use_plugin() {
    if [ -z "${GST_PLUGIN_PATH:-}${GST_PLUGIN_PATH_1_0:-}" ]; then
        for build in "$top/build" "$top/build-demo"; do
            if [ -f "$build/gst/libgstvae.so" ]; then
                use_build "$build"
                break
            fi
        done
    fi
}

# need_elements NAME...: checks that all elements exist.
need_elements() {
    command -v gst-launch-1.0 >/dev/null ||
        die 'gst-launch-1.0 is missing: install gstreamer1.0-tools'
    use_plugin
    for element; do
        # Without this option it requires the version of GStreamer.
        gst-inspect-1.0 --exists --atleast-version=0.0 "$element" && continue
        case $element in
        vae* | latent*)
            die "the element $element is missing: build it with" \
                '"meson setup build && meson compile -C build"'
            ;;
        x264enc) die "$element is missing: install gstreamer1.0-plugins-ugly" ;;
        gdp*) die "$element is missing: install gstreamer1.0-plugins-bad" ;;
        *) die "$element is missing: install gstreamer1.0-plugins-good" ;;
        esac
    done
}

# need_vaetool: if vaetool is not in PATH, adds that of the plugin's build
# folder or prefix.
need_vaetool() {
    command -v vaetool >/dev/null && return
    # The paths may hold spaces.
    IFS=:
    for folder in ${GST_PLUGIN_PATH_1_0:-} ${GST_PLUGIN_PATH:-}; do
        for tool in "$folder/../engine" "$folder/../../../bin" \
            "$folder/../../bin"; do
            if [ -f "$tool/vaetool" ] && [ -x "$tool/vaetool" ]; then
                PATH=$tool:$PATH
                break 2
            fi
        done
    done
    unset IFS
    command -v vaetool >/dev/null ||
        die 'vaetool is missing: it is built and installed with the plugin;' \
            'put its folder into PATH'
}

# need_file FILE
need_file() {
    [ -e "$1" ] || die "$1: no such file"
    if [ ! -f "$1" ] || [ ! -r "$1" ]; then die "$1: cannot be read"; fi
}

# take_clip [LATENTS] OUT: sets latents and out.
take_clip() {
    case $# in
    1) latents=$demo_latents out=$1 ;;
    2) latents=$1 out=$2 ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    need_file "$latents"
}

# refuse_same OUT KIND [PATH...]: ends the script if OUT is one of the files, or
# the weights in one of the folders. ENC,DEC names two files. The shards of an
# index are beside it.
refuse_same() {
    same_out=$1
    same_kind=$2
    shift 2
    for path; do
        if [ ! -e "$path" ]; then
            case $path in
            *,*) refuse_same "$same_out" "$same_kind" "${path%%,*}" "${path#*,}" ;;
            esac
            continue
        fi
        case $path in
        /*) ;;
        *) path=./$path ;;
        esac
        names='*'
        [ ! -d "$path" ] || names='diffusion_pytorch_model*'
        case $path in
        *.index.json | *.index.*.json) path=${path%/*} names='*-of-*' ;;
        esac
        [ ! -e "$same_out" ] || [ -z "$(find -L "$path" -maxdepth 2 \
            -name "$names" -samefile "$same_out" 2>/dev/null)" ] ||
            die "$same_out: is the $same_kind; write to another file"
    done
}

# write_to OUT [INPUT]: sets part, a name beside OUT. The script writes part
# first, so that a failed run does not change an older OUT. OUT must not be the
# input or a file of a model: see also tell_all().
write_to() {
    refuse_same "$1" input "${2:-}"
    refuse_same "$1" model "${model:-}" "${preview:-}"
    case $1 in
    */*) folder=${1%/*}/ ;;
    *) folder=./ ;;
    esac
    [ -d "$folder" ] || die "$1: there is no folder $folder"
    [ ! -d "$1" ] || die "$1: is a folder"
    [ -w "$folder" ] || die "$1: nothing can be written to $folder"
    part=$1.part$$
}

# need_model PATH: a file of weights, or a folder with weights. ENCODER,DECODER
# are two files; the element says which one is missing.
need_model() {
    case $1 in
    *,*) ;;
    *) [ -d "$1" ] || need_file "$1" ;;
    esac
}

# space_of FILE: prints the latent space of weights or latents, or "none" if the
# file states none.
space_of() {
    vaetool info --json "$1" 2>/dev/null |
        sed -n 's/^ *"latent_space": "\(.*\)",*$/\1/p' | grep . || echo none
}

# quoted TEXT: a value in the quotes of gst-launch-1.0, with any characters.
quoted() {
    printf '"%s"' "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')"
}

# location FILE
location() {
    printf 'location=%s' "$(quoted "$1")"
}

# play ELEMENT...: runs a pipeline, and prints its errors and the models that it
# loads to stderr. It ends the script after Ctrl-C, also if the shell ignores that.
# After an error at the start gst-launch-1.0 1.22 sometimes waits for ever, so the
# script ends it after a few seconds.
play() {
    pipe=$(new_folder)
    mkfifo "$pipe/said"
    gst-launch-1.0 "$@" >"$pipe/said" 2>&1 &
    launch=$!
    {
        rm -r "$pipe" # both ends are open
        tell_all
    } <"$pipe/said" >&2
    # The shell would report the process that the script ends.
    wait "$launch" 2>/dev/null || {
        launch=
        return 1
    }
    launch=
    [ -z "$interrupted" ] || interrupt
}

# decoded_of FILE: sets $decoded to elements that decode a video to whole frames.
# Sound is not decoded. The decoders of gstreamer1.0-libav have caps with features,
# so (ANY). The decoders of alpha have the caps ANY, which decodebin of GStreamer
# 1.22 then refuses; Matroska has the bytes 53 C0 81 01 before such a stream.
decoded_of() {
    only='caps=video/x-raw(ANY) expose-all-streams=false'
    ! head -c 65536 "$1" | LC_ALL=C grep -aq "$(printf 'S\300\201\001')" || only=
    # shellcheck disable=SC2034
    decoded="decodebin $only ! $(square "$1") videoconvert ! \
        deinterlace fields=top ! videoconvert"
}

# square FILE: prints an element for an AVI with rows from top to bottom, which is
# "strf", its size, 40, the width and a negative height. avidemux of GStreamer 1.22
# then states a negative aspect ratio, which videoscale refuses. The pixels are square
# in its place.
square() {
    ! head -c 65536 "$1" | od -An -v -tx1 | tr -d ' \n' |
        grep -q '73747266.\{8\}28000000.\{14\}f' ||
        echo 'capssetter caps=video/x-raw,pixel-aspect-ratio=1/1 !'
}

# Turns the pictures as the latents state it, so that players need not do it. It
# drops no late pictures.
# shellcheck disable=SC2034
upright='videoflip video-direction=auto qos=false !
    taginject tags=image-orientation=rotate-0'

# tell_options LINE: if an element's message names a property that is in
# `options`, prints the option of the script for it. Fields of caps have a type,
# as in variant=(string)hq.
tell_options() {
    told=
    without_caps=$(printf '%s\n' "$1" | sed 's/[a-z-]*=([^)]*)//g')
    for option in $({
        printf '%s\n' $options
        properties
    } | awk '!seen[$0]++'); do
        case $without_caps in
        *"$option="* | *"set $option to "* | *"set $option of "* | \
            *"one with $option"*)
            told="${told:+$told and }--$option"
            ;;
        esac
    done
    case $told in
    '') ;;
    *' and '*) echo "${0##*/}: set them by the options $told; see --help" ;;
    *) echo "${0##*/}: set it by the option $told; see --help" ;;
    esac
}

# values_of ELEMENT PROPERTY: prints the values that the property takes.
values_of() {
    gst-inspect-1.0 "$1" | awk -v element="$1" -v property="$2" '
        /^  [a-z]/ { found = $1 == property }
        found && /^ *\([0-9]+\): / { values[++n] = $2 }
        END {
            if (!n) printf "; see gst-inspect-1.0 %s", element
            for (i = 1; i <= n; i++)
                printf "%s%s", i == 1 ? ", expected " : i < n ? ", " : " or ",
                    values[i]
        }'
}

# tell_info TEXT: prints an INFO of an element. The model of the script has a latent
# space.
tell_info() {
    case $1 in
    *' states no latent space'*) return ;;
    esac
    echo "${0##*/}: $1"
}

# tell_failure LINE: prints an error or a warning of gst-launch-1.0 in the form
# of the script. Other elements also report errors after the first one; these
# are left out.
tell_failure() {
    case $1 in
    'ERROR: from element '* | 'WARNING: from element '*)
        [ -z "$doomed" ] || return 0
        ;;
    esac
    case $1 in
    *': Your GStreamer installation is missing a plug-in.' | \
        'no suitable plugins found:') return ;; # the decoders follow
    # decodebin lists all streams, also those that it need not decode.
    'Missing decoder: '*' (audio/'* | 'Missing decoder: '*' (text/'* | \
        'Missing decoder: '*' (subpicture/'* | 'Missing decoder: '*' (application/'*)
        found="${found:-no video}"
        return
        ;;
    'ERROR: from element '*': '* | 'WARNING: from element '*': '*)
        element=${1#*: from element }
        element=${element%%: *}
        element=${element##*:}
        file="${video:+$video: }" # the messages of other elements name no file
        case $element in vae* | latent* | file*) file= ;; esac
        echo "${0##*/}: $file${element%%[0-9]*}: ${1#*: from element *: }"
        ;;
    *'could not set property "'*'" in element "'*'" to "'*'"')
        property=${1#*could not set property \"}
        element=${property#*\" in element \"}
        element=${element%%\"*}
        property=${property%%\"*}
        echo "${0##*/}: --$property ${1##*\" to \"}: $element does not take" \
            "this$(values_of "$element" "$property")" | sed 's/":/:/'
        ;;
    'Missing decoder: '*)
        found=video
        echo "${0##*/}: $1; the package gstreamer1.0-libav has decoders for most" \
            'files of cameras and editors'
        ;;
    *) echo "$1" ;;
    esac
    case $1,\ $options\  in
    *'Put videorate before vaeencode, '*' framerate '* | \
        *'Put videorate before the encoder, '*' framerate '*)
        echo "${0##*/}: the option --framerate does this; see --help"
        ;;
    *'latentmux0: No latents arrived'*)
        echo "${0##*/}: the decoder of the video gave no frames; the package" \
            'gstreamer1.0-libav has another decoder for most videos'
        ;;
    esac
    tell_options "$1"
}

# tell_all: prints the output of gst-launch-1.0 without its progress, and each
# model once. A script with two models sets preview to the file of one.
model_told=
tell_all() {
    doomed=
    found= # of the streams without decoder
    informs=
    interrupted= # gst-launch-1.0 then ends with status 0
    while IFS= read -r line; do
        case $line in
        'Progress: (load-model) loading '*)
            case ${line#*) loading } in
            "$model_told") continue ;;
            "${preview:-none}"*) use='preview ' ;;
            *) use=${preview:+record } ;;
            esac
            model_told=${line#*) loading }
            # The options do not name an installed model.
            [ -z "$part" ] ||
                refuse_same "${part%.part$$}" model "$model_told"
            echo "${0##*/}: ${use}model $model_told"
            ;;
        INFO:) informs=informs ;; # its text follows
        'handling interrupt.' | 'Interrupt: Stopping '*) interrupted=1 ;;
        '' | 'Progress: '* | 'Setting pipeline '* | 'Pipeline is '* | \
            'Redistribute latency'* | 'New clock: '* | 'Got EOS '* | \
            'Execution ended '* | 'Freeing pipeline '* | \
            'Additional debug info:' | *'.c('[0-9]*'): '*' (): /Gst'*) ;;
        "ERROR: pipeline doesn't want to "* | 'Failed to set pipeline '* | \
            'streaming stopped, reason '*) [ "$doomed" ] || echo "$line" ;;
        'system error: '*) ;; # the message before has it
        *)
            if [ "$informs" ]; then tell_info "$line"; else tell_failure "$line"; fi
            informs=
            case $doomed,$line in
            ,ERROR:*)
                (sleep 5 && kill "$launch") >/dev/null 2>&1 </dev/null &
                doomed=$!
                ;;
            esac
            ;;
        esac
    done
    [ "$found" != 'no video' ] || echo "${0##*/}: ${video:-}: no video in the file"
    [ -z "$doomed" ] || kill "$doomed" 2>/dev/null || true
}

# check_y4m FILE: ends the script if the rows are padded. y4menc of GStreamer
# 1.22 pads them if the width is no multiple of 8, and players do not expect it.
check_y4m() {
    head -n 1 "$1" | awk -v bytes="$(wc -c <"$1")" '{
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^W/) w = substr($i, 2)
            if ($i ~ /^H/) h = substr($i, 2)
        }
        half = int((w + 1) / 2) * int((h + 1) / 2)
        exit (bytes - length($0) - 1) % (6 + w * h + 2 * half) != 0
    }' || die 'this y4menc of GStreamer cannot write this width, which is no' \
        'multiple of 8: use .webm or .mp4'
}

# wrote FILE: renames part of write_to to FILE, and prints its name and size.
wrote() {
    [ -z "$part" ] || {
        [ -s "$part" ] || die "$1 was not written"
        mv "$part" "$1"
        part=
    }
    [ -s "$1" ] || die "$1 was not written"
    printf '%s: %s: ' "${0##*/}" "$1" >&2
    wc -c <"$1" | awk '{
        if ($1 < 1e6) printf "%.1f kB\n", $1 / 1e3
        else printf "%.1f MB\n", $1 / 1e6
    }' >&2
}

# has_display: true if a window can open.
has_display() {
    [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]
}

# show_frames SYNC OTHERWISE: sets $sink to the elements of a window. Without a
# display it says so, and what happens otherwise.
# shellcheck disable=SC2034 # the scripts use $sink
show_frames() {
    sink="fakesink sync=$1 qos=true"
    if has_display; then
        # Unlike a window, clocksync drops no frame that comes late. The
        # fakesink tells the decoder that it is slow, which clocksync does not.
        sink="tee name=late ! videoconvert ! videoscale ! clocksync sync=$1 ! \
            autovideosink sync=false late. ! $sink async=false"
    else
        echo "no display: $2" >&2
    fi
}

# frames_of MKV ELEMENT...: sends the frames of a Matroska file of raw video to
# the elements.
frames_of() {
    mkv=$1
    shift
    play filesrc "$(location "$mkv")" ! matroskademux ! videoconvert ! "$@"
}

# size_of MKV FOLDER: sets width and height to those of the video. Bytes 16 to
# 23 of a PNG file are its width and height, big endian.
size_of() {
    frames_of "$1" pngenc snapshot=true ! filesink "$(location "$2/size.png")"
    # shellcheck disable=SC2046 # eight words
    set -- $(od -An -tu1 -j16 -N8 "$2/size.png")
    # shellcheck disable=SC2034 # the caller uses it
    width=$(($3 * 256 + $4))
    # shellcheck disable=SC2034
    height=$(($7 * 256 + $8))
}

# pictures_of MKV WIDTH HEIGHT STEM: writes each frame, scaled, as
# STEM000000.png and so on.
pictures_of() {
    frames_of "$1" videoscale ! "video/x-raw,width=$2,height=$3" ! pngenc ! \
        multifilesink "$(location "$4%06d.png")"
}

# sheet OUT WIDTH HEIGHT COLUMNS PNG...: writes one picture with the given ones,
# all of that size, in rows from left to right.
sheet() (
    out=$1
    cell_width=$2
    cell_height=$3
    columns=$4
    shift 4
    cell=0
    for png; do
        [ $cell != 0 ] || set --
        set -- "sink_$cell::xpos=$((cell % columns * cell_width))" \
            "sink_$cell::ypos=$((cell / columns * cell_height))" "$@" \
            filesrc "$(location "$png")" ! pngdec ! \
            imagefreeze num-buffers=1 ! "sheet.sink_$cell"
        cell=$((cell + 1))
    done
    play compositor name=sheet background=black "$@" \
        sheet. ! video/x-raw,format=RGB ! pngenc snapshot=true ! \
        filesink "$(location "$out")"
)

# rgb_of MKV WIDTH HEIGHT OUT: writes the frames by rgb_to_safetensors, with the
# width cut to a multiple of 4.
rgb_of() {
    frames_of "$1" videocrop right=$(($2 % 4)) ! video/x-raw,format=RGB ! \
        filesink "$(location "$4.rgb")"
    rgb_to_safetensors "$4.rgb" $(($2 - $2 % 4)) "$3" "$4"
    rm "$4.rgb"
}

# rgb_to_safetensors RGB WIDTH HEIGHT OUT: writes packed RGB frames as one
# tensor "video_u8" [frames, height, width, 3], for vaetool. GStreamer packs the
# rows if the width is a multiple of 4.
rgb_to_safetensors() {
    size=$(wc -c <"$1")
    frame=$(($2 * $3 * 3))
    if [ "$size" = 0 ] || [ $((size % frame)) != 0 ]; then
        die "$1: $size bytes are no whole number of $2x$3 RGB frames"
    fi
    header=$(printf '{"%s":{"dtype":"U8","shape":[%d,%d,%d,3],%s[0,%d]}}' \
        video_u8 $((size / frame)) "$3" "$2" '"data_offsets":' "$size")
    length=${#header}
    {
        # shellcheck disable=SC2059 # the bytes of the length
        printf "$(printf '\\%03o\\%03o' $((length % 256)) $((length / 256)))"
        printf '\0\0\0\0\0\0%s' "$header"
        cat "$1"
    } >"$4"
}
