/*
 * libnvcuvid.c: a library of video decoders that has none. With it, nvcodec of
 * GStreamer 1.22 registers cudaupload and cudadownload.
 */
enum { CUDA_ERROR_NOT_SUPPORTED = 801 };

#define NONE(name)                                                             \
    int name(void);                                                            \
    int name(void)                                                             \
    {                                                                          \
        return CUDA_ERROR_NOT_SUPPORTED;                                       \
    }

NONE(cuvidCreateDecoder)
NONE(cuvidCreateVideoParser)
NONE(cuvidCtxLock)
NONE(cuvidCtxLockCreate)
NONE(cuvidCtxLockDestroy)
NONE(cuvidCtxUnlock)
NONE(cuvidDecodePicture)
NONE(cuvidDestroyDecoder)
NONE(cuvidDestroyVideoParser)
NONE(cuvidGetDecoderCaps)
NONE(cuvidMapVideoFrame64)
NONE(cuvidParseVideoData)
NONE(cuvidUnmapVideoFrame64)
