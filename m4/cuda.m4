# TOMBOLA_CHECK_CUDA: NVCC, CUDA_CPPFLAGS, CUDA_LIBS and the conditional HAVE_CUDA, from
# --with-cuda[=DIR]. The runtime is linked statically, so that the programs start where there is no
# toolkit, no driver and no GPU; cuBLAS is loaded when it is wanted.
AC_DEFUN([TOMBOLA_CHECK_CUDA], [
    have_cuda=no
    cuda_summary="no"
    AS_CASE([$with_cuda],
        [no], [cuda_summary="no (--without-cuda)"],
        [yes|auto], [cuda_folders="/usr/local/cuda /usr/lib/cuda /opt/cuda /usr"],
        [cuda_folders="$with_cuda"])
    AS_IF([test "$with_cuda" != no], [
        for cuda_folder in $cuda_folders; do
            AS_IF([test -x "$cuda_folder/bin/nvcc"], [break])
            cuda_folder=
        done
        AS_IF([test -n "$cuda_folder"], [
            NVCC="$cuda_folder/bin/nvcc"
            CUDA_CPPFLAGS="-I$cuda_folder/include"
            for cuda_lib in "$cuda_folder/lib64" "$cuda_folder/lib/x86_64-linux-gnu" "$cuda_folder/lib"; do
                AS_IF([test -e "$cuda_lib/libcudart_static.a"], [break])
            done
            CUDA_LIBS="-L$cuda_lib -lcudart_static -lstdc++ -lrt -lpthread -ldl"
            save_LIBS="$LIBS"
            save_CPPFLAGS="$CPPFLAGS"
            LIBS="$CUDA_LIBS $LIBS"
            CPPFLAGS="$CUDA_CPPFLAGS $CPPFLAGS"
            AC_MSG_CHECKING([for the CUDA runtime in $cuda_folder])
            AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>]],
                                            [[int n; return (int)cudaGetDeviceCount(&n);]])],
                           [have_cuda=yes])
            AC_MSG_RESULT([$have_cuda])
            LIBS="$save_LIBS"
            CPPFLAGS="$save_CPPFLAGS"
        ])
        AS_IF([test "$have_cuda" = yes],
            [cuda_summary="$NVCC"
             AC_DEFINE([HAVE_CUDA], [1], [built with the CUDA device and kernels])],
            [AS_IF([test "$with_cuda" != auto],
                [AC_MSG_ERROR([--with-cuda was given, but no working nvcc and libcudart_static in: $cuda_folders])])
             cuda_summary="no (no toolkit found; the CPU does the work)"])
    ])
    AC_ARG_VAR([NVCC_ARCH], [nvcc's -gencode options])
    AS_IF([test -z "$NVCC_ARCH"],
        [NVCC_ARCH="-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90"])
    AC_SUBST([NVCC])
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([CUDA_LIBS])
    AM_CONDITIONAL([HAVE_CUDA], [test "$have_cuda" = yes])
])
