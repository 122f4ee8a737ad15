dnl SPDX-License-Identifier: MIT
# TOMBOLA_CHECK_ARROW: ARROW_CPPFLAGS, ARROW_LIBS, CXX and the conditional HAVE_ARROW, from
# --with-arrow[=DIR]. No program is linked with it: only the module is, which they load. A library in
# a folder of its own is found there again by the module.
AC_DEFUN([TOMBOLA_CHECK_ARROW], [
    have_arrow=no
    arrow_summary="no"
    AC_ARG_VAR([CXX], [C++ compiler command, for the module that reads Parquet])
    AC_ARG_VAR([CXXFLAGS], [C++ compiler flags])
    AC_CHECK_PROGS([CXX], [g++ c++ clang++])
    AS_IF([test -z "$CXXFLAGS"], [CXXFLAGS="-O2"])
    AS_CASE([$with_arrow],
        [no], [arrow_summary="no (--without-arrow)"],
        [yes|auto],
            [PKG_CHECK_MODULES([ARROW], [parquet >= 21 arrow >= 21],
                [have_arrow=maybe
                 ARROW_CPPFLAGS=$ARROW_CFLAGS],
                [:])],
        [AS_IF([test -e "$with_arrow/include/parquet/arrow/reader.h"],
            [have_arrow=maybe
             ARROW_CPPFLAGS="-isystem $with_arrow/include"
             for arrow_folder in "$with_arrow" "$with_arrow/lib" "$with_arrow/lib64"; do
                 arrow_parquet=`ls "$arrow_folder"/libparquet.so* 2>/dev/null | head -n 1`
                 arrow_arrow=`ls "$arrow_folder"/libarrow.so* 2>/dev/null | head -n 1`
                 AS_IF([test -n "$arrow_parquet" && test -n "$arrow_arrow"],
                     [ARROW_LIBS="$arrow_parquet $arrow_arrow -Wl,-rpath,$arrow_folder"
                      break])
             done])])
    AS_IF([test "$have_arrow" = maybe],
        [AC_MSG_CHECKING([whether $CXX compiles with Arrow])
         AS_ECHO(["#include <arrow/util/config.h>
#include <parquet/arrow/reader.h>
static_assert(ARROW_VERSION_MAJOR >= 21);"]) >conftest.cc
         AS_IF([$CXX -std=c++20 $ARROW_CPPFLAGS -shared -fPIC -o conftest.so conftest.cc \
                    $ARROW_LIBS >&AS_MESSAGE_LOG_FD 2>&1],
             [have_arrow=yes
              arrow_summary="yes ($ARROW_LIBS)"],
             [have_arrow=no])
         rm -f conftest.cc conftest.so
         AC_MSG_RESULT([$have_arrow])])
    AS_IF([test "$have_arrow" != yes && test "$with_arrow" != no && test "$with_arrow" != auto],
        [AC_MSG_ERROR([--with-arrow=$with_arrow: no C++20 compiler that builds with Arrow 21 or later there])])
    arrow_prefix=$prefix
    AS_IF([test "$arrow_prefix" = NONE], [arrow_prefix=$ac_default_prefix])
    arrow_folder=`prefix=$arrow_prefix; exec_prefix=$arrow_prefix; eval echo "$libdir"`
    AC_DEFINE_UNQUOTED([PKGLIBDIR], ["$arrow_folder/$PACKAGE"], [where modules are installed])
    AC_SUBST([ARROW_CPPFLAGS])
    AC_SUBST([ARROW_LIBS])
    AM_CONDITIONAL([HAVE_ARROW], [test "$have_arrow" = yes])
])
