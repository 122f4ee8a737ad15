dnl SPDX-License-Identifier: MIT
# TOMBOLA_CHECK_NVCC_ARCH: NVCC_ARCH, the code that goes into the programs: for each generation of
# GPUs that this nvcc compiles for (a generation runs the code of its first member), and PTX of the
# newest, which the driver translates for those that come after it.
AC_DEFUN([TOMBOLA_CHECK_NVCC_ARCH], [
    AC_ARG_VAR([NVCC_ARCH], [nvcc's -gencode options])
    AC_MSG_CHECKING([which GPUs $NVCC compiles for])
    AS_IF([test -n "$NVCC_ARCH"], [cuda_archs="$NVCC_ARCH (NVCC_ARCH)"], [
        AS_ECHO(["__global__ void probe(float *x) { *x = 1; }"]) >conftest.cu
        cuda_archs=
        for cuda_arch in 70 75 80 90 100 120; do
            cuda_code="-gencode arch=compute_$cuda_arch,code=sm_$cuda_arch"
            AS_IF([$NVCC -Wno-deprecated-gpu-targets $cuda_code -c -o conftest.o conftest.cu \
                       >&AS_MESSAGE_LOG_FD 2>&1],
                [NVCC_ARCH="$NVCC_ARCH $cuda_code"
                 cuda_archs="${cuda_archs}sm_$cuda_arch "
                 cuda_newest=$cuda_arch])
        done
        rm -f conftest.cu conftest.o
        AS_IF([test -n "$NVCC_ARCH"],
            [NVCC_ARCH="$NVCC_ARCH -gencode arch=compute_$cuda_newest,code=compute_$cuda_newest"
             cuda_archs="${cuda_archs}and PTX $cuda_newest"])
    ])
    AC_MSG_RESULT([${cuda_archs:-none}])
])

# TOMBOLA_CHECK_CUDA: NVCC, CUDA_CPPFLAGS, CUDA_LIBS and the conditional HAVE_CUDA, from
# --with-cuda[=DIR]. The runtime is linked statically, so that the programs start where there is no
# toolkit, no driver and no GPU, and so is what nvcc's C++ needs: programs in C that use libtombola
# need no libstdc++. cuBLAS is loaded when it is wanted.
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
            CUDA_LIBS="-L$cuda_lib -lcudart_static -l:libsupc++.a -lrt -lpthread -ldl"
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
            AS_IF([test "$have_cuda" = yes],
                [TOMBOLA_CHECK_NVCC_ARCH
                 AS_IF([test -z "$NVCC_ARCH"], [have_cuda=no])])
        ])
        AS_IF([test "$have_cuda" = yes],
            [cuda_summary="$NVCC, $cuda_archs"
             AC_DEFINE([HAVE_CUDA], [1], [built with the CUDA device and kernels])],
            [AS_IF([test "$with_cuda" != auto],
                [AC_MSG_ERROR([--with-cuda was given, but no working nvcc and libcudart_static in: $cuda_folders])])
             cuda_summary="no (no toolkit found; the CPU does the work)"])
    ])
    AC_SUBST([NVCC])
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([CUDA_LIBS])
    AM_CONDITIONAL([HAVE_CUDA], [test "$have_cuda" = yes])
])
